"""The compact kernel machine: start, training, storage and choice of size."""
