"""The transport of bytes between ranks: MPI, the loss of ranks, and the watchdog."""
