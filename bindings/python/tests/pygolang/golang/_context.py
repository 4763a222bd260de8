"""The children of a context, as pygolang counts them."""

from punctual.golang.context import Context as PyContext
from punctual.golang.context import _Cancelable

__all__ = ["PyContext"]


def _next_below(context: PyContext, top: PyContext) -> "set[PyContext]":
    """Returns the children of `top` among `context` and its ancestors."""
    found = {context} if top in context._parents else set()
    return found.union(*(_next_below(parent, top) for parent in context._parents))


def _tctxAssertChildren(context: PyContext, children: "set[PyContext]") -> None:  # noqa: N802
    """Checks the contexts that a cancellation of `context` cancels.

    pygolang registers a context with its parents. We register it with the nearest contexts above
    that have a channel, so a context with a value is registered nowhere.
    """
    registered = {child for above in context._cancelable() for child in above._children}
    below = set().union(*(_next_below(child, context) for child in registered))
    cancelable = {child for child in children if isinstance(child, _Cancelable)}
    assert cancelable <= registered
    assert below <= children
    assert all(context in child._parents for child in children)
