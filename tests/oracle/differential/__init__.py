"""The same requests to MindInsight 2.3.1 and to this package's viewer, over the same runs."""
