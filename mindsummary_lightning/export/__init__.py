"""Export runs to other formats, and import TensorBoard files."""
