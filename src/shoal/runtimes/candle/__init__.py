"""The Candle runtime: encoders computed by a library of 19 MB."""
