"""Training: the one loop, optimizers and schedules, checkpoints, progress."""
