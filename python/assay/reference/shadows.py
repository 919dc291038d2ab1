"""What is known beside the values of tensors: the type that the reference thinks a float64 tensor has, and
its rounding budget.

Both belong to storages, not to tensors: a view shares its base's values, and so shares what lies beside them,
at the same offsets and strides. In-place operations through views need no special care then. An entry lives
as long as its storage.
"""
from typing import Dict, Optional, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_SWEEP_EVERY = 512  # new entries between two removals of dead ones


class _Shadow:
    __slots__ = ("reference", "declared", "b", "s", "terms")

    def __init__(self, storage: torch.UntypedStorage):
        self.reference = StorageWeakRef(storage)
        self.declared: Optional[torch.dtype] = None
        self.b: Optional[torch.Tensor] = None
        self.s: Optional[torch.Tensor] = None
        self.terms = 1.0


class Shadows:
    def __init__(self) -> None:
        self._table: Dict[int, _Shadow] = {}
        self._made = 0

    def _find(self, t: torch.Tensor) -> Optional[_Shadow]:
        # A weak reference keeps the storage's address from being used again, so the key is unique.
        found = self._table.get(t.untyped_storage()._cdata)
        return None if found is None or found.reference.expired() else found

    def _entry(self, t: torch.Tensor) -> _Shadow:
        found = self._find(t)
        if found is None:
            storage = t.untyped_storage()
            found = self._table[storage._cdata] = _Shadow(storage)
            self._made += 1
            if self._made % _SWEEP_EVERY == 0:
                self._table = {k: e for k, e in self._table.items() if not e.reference.expired()}
        return found

    def declare(self, t: torch.Tensor, dtype: torch.dtype) -> None:
        self._entry(t).declared = dtype

    def declared(self, t: torch.Tensor) -> torch.dtype:
        """The type that the reference would see in `t`."""
        if t.dtype != torch.float64:
            return t.dtype
        found = self._find(t)
        return t.dtype if found is None or found.declared is None else found.declared

    def terms(self, t: torch.Tensor) -> float:
        """The longest sum that elements of `t` depend on."""
        found = self._find(t)
        return 1.0 if found is None else found.terms

    def note_terms(self, t: torch.Tensor, terms: float) -> None:
        if terms > 1:
            entry = self._entry(t)
            entry.terms = max(entry.terms, terms)

    def budget(self, t: torch.Tensor) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
        """Bound and variance, as views beside `t`; None where it is exact."""
        t = _real_view(t)
        found = self._find(t)
        if found is None or found.b is None:
            return None, None
        return self._beside(found.b, t), self._beside(found.s, t)

    def set_budget(self, t: torch.Tensor, b: Optional[torch.Tensor], s: Optional[torch.Tensor]) -> None:
        t = _real_view(t)
        found = self._find(t)
        if b is None and (found is None or found.b is None):
            return
        found = self._entry(t)
        if found.b is None:
            count = t.untyped_storage().nbytes() // t.element_size()
            found.b = torch.zeros(count, dtype=torch.float64)
            found.s = torch.zeros(count, dtype=torch.float64)
        for mine, given in ((found.b, b), (found.s, s)):
            beside = self._beside(mine, t)
            if given is None:
                beside.zero_()
                continue
            given = given.expand(t.shape)
            for d, (extent, stride) in enumerate(zip(t.shape, t.stride())):
                if stride == 0 and extent > 1:  # one element in many places
                    beside, given = beside.narrow(d, 0, 1), given.amax(d, keepdim=True)
            beside.copy_(given)

    @staticmethod
    def _beside(flat: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return flat.as_strided(t.size(), t.stride(), t.storage_offset())


def _real_view(t: torch.Tensor) -> torch.Tensor:
    """Complex numbers have two budgets each, where their parts lie."""
    if not t.is_complex():
        return t
    return torch.view_as_real(t.conj() if t.is_conj() else t)
