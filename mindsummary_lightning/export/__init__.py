"""Export runs to CSV, Parquet, NumPy, HTML and TensorBoard; import TensorBoard."""
