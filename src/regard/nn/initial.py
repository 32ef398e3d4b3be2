"""Networks without first values, for those who give them others or only count them."""

from typing import Any

from torch.overrides import TorchFunctionMode


class Unfilled(TorchFunctionMode):
    """Inside it, parameters keep whatever memory holds. On the meta device first values take a second of imports."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
