"""Versions under which every page of MindInsight 2.3.1 works; noxfile.py reads them, so nothing is
imported.
"""

PINS = (
    "mindinsight==2.3.1",
    "numpy==1.26.4",
    "pandas==1.5.3",
    "scipy<1.14",
    "scikit-learn<1.6",
    "marshmallow<4",
    "protobuf==3.20.1",
)
