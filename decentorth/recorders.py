"""Recorders of runs: Parquet, TensorBoard, MLflow; the code is in `decentorth.lab.recorders`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .lab.recorders import FileRecorder as FileRecorder
    from .lab.recorders import MLflow as MLflow
    from .lab.recorders import Parquet as Parquet
    from .lab.recorders import TensorBoard as TensorBoard
    from .lab.recorders import recorder as recorder

__getattr__, __dir__ = lazily(__name__)
