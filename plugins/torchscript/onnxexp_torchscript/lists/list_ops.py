"""Operators on lists, dicts, strings and ranges: in Python, or on ONNX sequences."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from onnxexp.graph import TensorType, Value, values_in
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.export_time_values import Items, Text
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number, is_number, unwrap
from onnxexp_torchscript.lists import unknown_length_lists


def _changes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operator that changes its first argument."""

    def python(interpreter: Interpreter, container: Any, *args: Any) -> Any:
        if not isinstance(container, (Items, dict)):
            return NotImplemented
        interpreter.journal.note(container)
        return function(interpreter, container, *args)

    return python


def _append(interpreter: Interpreter, items: Items, ivalue: Any) -> Items:
    if items.sequence is not None:
        unknown_length_lists.insert(interpreter, items, ivalue)
    else:
        items.append(ivalue)
    return items


def _extend(interpreter: Interpreter, items: Items, more: Items) -> Items:
    if items.sequence is None and more.sequence is None:
        items.extend(more)
    elif more.sequence is None:
        for ivalue in more:
            unknown_length_lists.insert(interpreter, items, ivalue)
    elif items.sequence is None and not items:
        items.become(more)
    else:
        unknown_length_lists.extend(interpreter, items, more)
    return items


def _insert(interpreter: Interpreter, items: Items, index: Any, ivalue: Any) -> None:
    if isinstance(index, Value):
        unknown_length_lists.promote(interpreter, items)
    if items.sequence is not None:
        unknown_length_lists.insert(interpreter, items, ivalue, index)
    else:
        items.insert(unwrap(index), ivalue)


def _pop(interpreter: Interpreter, items: Any, index: Any = -1, default: Any = None) -> Any:
    if isinstance(items, dict):
        return items.pop(index, default)
    if isinstance(index, Value):
        unknown_length_lists.promote(interpreter, items)
    if items.sequence is not None:
        ivalue = unknown_length_lists.get(interpreter, items, index)
        unknown_length_lists.remove(interpreter, items, index)
        return ivalue
    return items.pop(unwrap(index))


def _clear(interpreter: Interpreter, container: Any) -> None:
    if isinstance(container, Items):
        container.become(Items(element=container.element))
    else:
        container.clear()


def _delete(interpreter: Interpreter, container: Any, key: Any) -> None:
    if isinstance(container, Items) and (container.sequence is not None or isinstance(key, Value)):
        unknown_length_lists.promote(interpreter, container)
        unknown_length_lists.remove(interpreter, container, key)
    else:
        del container[unwrap(key)]


def _set_item(interpreter: Interpreter, container: Any, key: Any, ivalue: Any) -> Any:
    if isinstance(container, dict):
        container[_key(interpreter, key)] = ivalue
        return container
    if isinstance(key, Value):
        unknown_length_lists.promote(interpreter, container)
    if container.sequence is None:
        container[unwrap(key)] = ivalue
        return container
    index = unwrap(key)
    if isinstance(index, Value) or index >= 0:
        unknown_length_lists.remove(interpreter, container, index)
        unknown_length_lists.insert(interpreter, container, ivalue, index)
    else:
        length = unknown_length_lists.length(interpreter, container)
        index = interpreter.number("aten::add", operator.add, [length, index])
        unknown_length_lists.remove(interpreter, container, index)
        unknown_length_lists.insert(interpreter, container, ivalue, index)
    return container


def _key(interpreter: Interpreter, key: Any) -> Any:
    key = unwrap(key)
    if isinstance(key, Value):
        raise interpreter.refuse("the key of a dict is known only at run time", "use constant keys")
    return key


def _reverse(interpreter: Interpreter, items: Items) -> None:
    if items.sequence is not None:
        items.become(unknown_length_lists.sliced(interpreter, items, None, None, -1))
    else:
        items.reverse()


def _sort(interpreter: Interpreter, items: Items, reverse: bool = False) -> None:
    if items.sequence is not None or any(isinstance(item, Value) for item in items):
        raise interpreter.refuse("the program sorts a list whose elements are known only at run time", "sort a tensor")
    items.sort(key=unwrap, reverse=reverse)


def _get_item(interpreter: Interpreter, container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return container[_key(interpreter, key)]
    if isinstance(container, (Value, Number)):
        return NotImplemented
    index = unwrap(key)
    if isinstance(container, Items) and container.sequence is not None:
        return unknown_length_lists.get(interpreter, container, index)
    if not isinstance(index, Value):
        return container[index]
    return _chosen(interpreter, container, index)


def _chosen(interpreter: Interpreter, items: Any, index: Value) -> Any:
    """Select an element of a list of known length, at a run-time index."""
    ivalues = [unknown_length_lists.as_tensor(interpreter, item) for item in items]
    types = [ivalue.type if isinstance(ivalue, Value) else None for ivalue in ivalues]
    if all(is_number(item) for item in items):
        made = interpreter.operators("aten::tensor")(interpreter, interpreter.items(items))
        return interpreter.emit("aten::item", [interpreter.emit("aten::select.int", [made, 0, index])])
    first = types[0]
    if isinstance(first, TensorType) and first.sizes is not None and all(type_ == first for type_ in types):
        return interpreter.emit("aten::select.int", [interpreter.emit("aten::stack", [ivalues, 0]), 0, index])
    held = Items(items)
    unknown_length_lists.promote(interpreter, held)
    return unknown_length_lists.get(interpreter, held, index)


def _length(interpreter: Interpreter, of: Any) -> Any:
    if isinstance(of, Items) and of.sequence is not None:
        return unknown_length_lists.length(interpreter, of)
    if isinstance(of, Value):
        return interpreter.size(of, 0)
    return len(of)


def _slice(interpreter: Interpreter, items: Any, start: Any, end: Any, step: Any = 1) -> Any:
    if not isinstance(items, (list, str)):
        return NotImplemented
    bounds = [unwrap(bound) for bound in (start, end, step)]
    if (isinstance(items, Items) and items.sequence is not None) or any(isinstance(bound, Value) for bound in bounds):
        if not isinstance(items, Items) or isinstance(bounds[2], Value):
            raise interpreter.refuse("a text is sliced, or a list by steps, that only the run time determines", "fix them")
        return unknown_length_lists.sliced(interpreter, items, *bounds)
    piece = items[slice(*bounds)]
    return piece if isinstance(piece, str) else interpreter.items(piece)


def _add(interpreter: Interpreter, one: Any, other: Any, *rest: Any) -> Any:
    if isinstance(one, str):
        return _text_of([one, other], one + other)
    if not isinstance(one, Items) or not isinstance(other, Items):
        return NotImplemented
    made = one.copy()
    interpreter.journal.created(made)
    return _extend(interpreter, made, other)


def _add_in_place(interpreter: Interpreter, one: Any, other: Any, *rest: Any) -> Any:
    if not isinstance(one, Items):
        return NotImplemented
    interpreter.journal.note(one)
    return _extend(interpreter, one, other)


def _repeated(interpreter: Interpreter, one: Any, other: Any) -> Any:
    items, count = (one, unwrap(other)) if isinstance(one, (Items, str)) else (other, unwrap(one))
    if not isinstance(items, (Items, str)):
        return NotImplemented
    if isinstance(count, Value) or (isinstance(items, Items) and items.sequence is not None):
        raise interpreter.refuse("a list is repeated a number of times that is known only at run time", "expand a tensor")
    return items * count if isinstance(items, str) else interpreter.items(list(items) * count)


def _compared(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Compare lists, strings, dtypes and devices."""

    def python(interpreter: Interpreter, one: Any, other: Any, *rest: Any) -> Any:
        if isinstance(one, list) and isinstance(other, list):
            return _lists_equal(interpreter, one, other, function is operator.eq)
        if isinstance(one, (Value, Number)) or isinstance(other, (Value, Number)):
            return NotImplemented
        return function(TYPE_CODES.code(one), TYPE_CODES.code(other))

    return python


def _lists_equal(interpreter: Interpreter, one: Any, other: Any, wanted: bool) -> Any:
    if any(isinstance(items, Items) and items.sequence is not None for items in (one, other)):
        raise interpreter.refuse("lists of unknown length are compared", "compare tensors")
    if len(one) != len(other):
        return not wanted
    result: Any = True
    for a, b in zip(one, other, strict=True):
        same = interpreter.number("aten::eq", operator.eq, [unwrap(a), unwrap(b)])
        result = (
            same if result is True else result if same is True else False if same is False else _both(interpreter, result, same)
        )
    return result if wanted else python_numbers.compute(interpreter, "aten::__not__", [result])


def _both(interpreter: Interpreter, one: Any, other: Any) -> Any:
    return interpreter.number("aten::__and__", operator.and_, [one, other])


def _contains(interpreter: Interpreter, container: Any, ivalue: Any) -> Any:
    if isinstance(container, dict):
        return _key(interpreter, ivalue) in container
    if isinstance(container, Items) and container.sequence is not None:
        raise interpreter.refuse("a list of unknown length is searched", "compare with a tensor")
    result: Any = False
    for item in container:
        same = interpreter.number("aten::eq", operator.eq, [unwrap(item), unwrap(ivalue)]) if is_number(item) else item == ivalue
        if same is True:
            return True
        if same is not False:
            result = same if result is False else interpreter.number("aten::__or__", operator.or_, [result, same])
    return result


def _reduced(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Compute `min`, `max`, `any`, `all` or `sum` of a list of numbers."""

    def python(interpreter: Interpreter, items: Any, *rest: Any) -> Any:
        if not isinstance(items, Items) or rest:
            return NotImplemented
        if items.sequence is not None:
            raise interpreter.refuse("a list of unknown length is reduced", "make it a tensor")
        result = unwrap(items[0])
        for item in items[1:]:
            result = interpreter.number(name, function, [result, unwrap(item)])
        return result

    return python


def _range_length(interpreter: Interpreter, start: Any, end: Any, step: Any) -> Any:
    start, end, step = map(unwrap, (start, end, step))
    if not any(isinstance(bound, Value) for bound in (start, end, step)):
        return len(range(start, end, step))
    length = end if start == 0 and not isinstance(start, Value) else interpreter.number("aten::sub", operator.sub, [end, start])
    if step == 1:
        return length
    if isinstance(step, Value):
        raise interpreter.refuse("the step of a range is known only at run time", "use a fixed step")
    longer = interpreter.number("aten::add", operator.add, [length, step - 1 if step > 0 else step + 1])
    return interpreter.number("aten::floordiv", operator.floordiv, [longer, step])


def _derived_index(interpreter: Interpreter, index: Any, start: Any, step: Any) -> Any:
    scaled = interpreter.number("aten::mul", operator.mul, [unwrap(index), unwrap(step)]) if unwrap(step) != 1 else unwrap(index)
    return (
        scaled
        if unwrap(start) == 0 and not isinstance(start, Value)
        else interpreter.number("aten::add", operator.add, [scaled, unwrap(start)])
    )


def _copied(interpreter: Interpreter, items: Any, *of_a_tensor: Any) -> Any:
    if of_a_tensor:
        return NotImplemented
    if isinstance(items, str):
        return interpreter.items(items)
    if not isinstance(items, Items):
        return NotImplemented
    made = items.copy()
    interpreter.journal.created(made)
    return made


def _joined_tensors(*, new_axis: bool) -> Callable[..., Any]:
    def python(interpreter: Interpreter, items: Any, dim: Any = 0, *rest: Any) -> Any:
        if not isinstance(items, Items) or items.sequence is None:
            return NotImplemented
        return unknown_length_lists.concatenated(interpreter, items, dim, new_axis=new_axis)

    return python


def _text_of(parts: Iterable[Any], made: str) -> str:
    """Join parts to a text."""
    return Text(made) if any(isinstance(part, Text) or any(values_in(part)) for part in map(unwrap, parts)) else made


def _format(interpreter: Interpreter, text: str, *args: Any) -> str:
    return _text_of([text, *args], text.format(*map(unwrap, args)))


def _percent_format(interpreter: Interpreter, text: str, args: Any) -> str:
    given = tuple(map(unwrap, args)) if isinstance(args, tuple) else (unwrap(args),)
    made = _text_of([text, *given], text)
    return made if isinstance(made, Text) else text % given


def _view_of_dict(name: str) -> Callable[..., Any]:
    def python(interpreter: Interpreter, mapping: dict[Any, Any]) -> Any:
        return interpreter.items(getattr(mapping, name)())  # keys, values and items

    return python


def _dict_get(interpreter: Interpreter, mapping: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return mapping.get(_key(interpreter, key), default)


def _divmod(interpreter: Interpreter, one: Any, other: Any) -> Any:
    args = [unwrap(one), unwrap(other)]
    return interpreter.number("aten::floordiv", operator.floordiv, args), interpreter.number(
        "aten::remainder", operator.mod, args
    )


def _update(interpreter: Interpreter, mapping: dict[Any, Any], more: dict[Any, Any]) -> None:
    mapping.update(more)


def _text(interpreter: Interpreter, ivalue: Any) -> str:
    return _text_of([ivalue], str(unwrap(ivalue)))


OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::append": _changes(_append),
    "aten::extend": _changes(_extend),
    "aten::insert": _changes(_insert),
    "aten::pop": _changes(_pop),
    "aten::clear": _changes(_clear),
    "aten::Delete": _changes(_delete),
    "aten::_set_item": _changes(_set_item),
    "aten::reverse": _changes(_reverse),
    "aten::sort.int": _changes(_sort),
    "aten::sort.float": _changes(_sort),
    "aten::update": _changes(_update),
    "aten::__getitem__": _get_item,
    "aten::len": _length,
    "aten::slice.t": _slice,
    "aten::slice.str": _slice,
    "aten::add.t": _add,
    "aten::add.str": _add,
    "aten::add_.t": _add_in_place,
    "aten::mul.left_t": _repeated,
    "aten::mul.right_": _repeated,
    "aten::eq": _compared("aten::eq", operator.eq),
    "aten::ne": _compared("aten::ne", operator.ne),
    "aten::__contains__": _contains,
    "prim::min": _reduced("prim::min", python_numbers.minimum),
    "prim::max": _reduced("prim::max", python_numbers.maximum),
    "aten::any.bool": _reduced("aten::__or__", operator.or_),
    "aten::all.bool": _reduced("aten::__and__", operator.and_),
    "aten::sum.int": _reduced("aten::add", operator.add),
    "aten::sum.float": _reduced("aten::add", operator.add),
    "aten::__range_length": _range_length,
    "aten::__derive_index": _derived_index,
    "aten::list": _copied,
    "aten::copy": _copied,
    "aten::cat": _joined_tensors(new_axis=False),
    "aten::concat": _joined_tensors(new_axis=False),
    "aten::stack": _joined_tensors(new_axis=True),
    "aten::format": _format,
    "aten::percentFormat": _percent_format,
    "aten::str": _text,
    "aten::keys": _view_of_dict("keys"),
    "aten::values": _view_of_dict("values"),
    "aten::items": _view_of_dict("items"),
    "aten::get": _dict_get,
    "aten::divmod": _divmod,
}
"""By name; NotImplemented leaves the call to torch's operator."""
