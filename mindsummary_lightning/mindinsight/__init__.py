"""The original MindInsight 2.3.1: its front-end files, an environment in which it works, and diagnostics."""
