"""TensorBoard's event files, read without TensorBoard: records, fields, scalars."""
