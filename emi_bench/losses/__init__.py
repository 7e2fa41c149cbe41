"""Pure functions: shapes in the docstring, the formula, a doctest. All compute in at least float32."""
