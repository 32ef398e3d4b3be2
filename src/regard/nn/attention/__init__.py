"""Attention: projections (`MultiHead`) around a kernel; a new kernel is a new file and one line here."""

from regard.nn.attention.cache import Fixed, Growing
from regard.nn.attention.full import Full, attend
from regard.nn.attention.mask import Mask
from regard.nn.attention.multihead import Kernel, MultiHead

ATTENTIONS: dict[str, type[Kernel]] = {"full": Full}

__all__ = ["ATTENTIONS", "Fixed", "Full", "Growing", "Kernel", "Mask", "MultiHead", "attend"]
