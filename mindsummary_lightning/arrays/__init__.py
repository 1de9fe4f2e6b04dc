"""Anything that holds numbers or pixels -> the frozen values a run records; NumPy and Pillow only.

``scalar_of``, ``tensor_of``, ``histogram_of`` and ``image_of`` follow MindSpore's recorder to the bit where it works;
``picture_of`` and ``figure_of`` take what people really have in hand. Whatever they return owns its memory.
"""

from mindsummary_lightning.arrays.coerce import to_array
from mindsummary_lightning.arrays.histograms import histogram_of
from mindsummary_lightning.arrays.images import image_of
from mindsummary_lightning.arrays.numbers import scalar_of, tensor_of
from mindsummary_lightning.arrays.pictures import figure_of, picture_of

__all__ = ["figure_of", "histogram_of", "image_of", "picture_of", "scalar_of", "tensor_of", "to_array"]
