"""Samples by position: order, augmentation and packaged image sets, without any iterator state."""
