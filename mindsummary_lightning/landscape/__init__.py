"""Loss landscapes: the checkpoints a run leaves, the mathematics over them, and the events MindInsight draws."""
