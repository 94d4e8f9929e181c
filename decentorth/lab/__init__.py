"""The laboratory: comparisons, studies, theory, figures, recorders and the doctor. The core does not
import it."""
