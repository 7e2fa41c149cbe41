"""Pure functions, with shapes and formula in the docstring. All compute in at least float32."""
