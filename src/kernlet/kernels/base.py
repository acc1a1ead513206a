"""What every kernel offers: its formula, its derivatives, and how it is saved and exported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device

#: Kernel values below this keep three decimal places in float32.
FLOAT32_LARGEST = 1e3
#: exp(-60) = 1e-26 and exp(-690) = 1e-300. Smaller values, once multiplied by a coefficient, become
#: subnormal, and processors are up to a hundred times slower with subnormal numbers.
LEAST_EXPONENT = {np.dtype(np.float32): -60.0, np.dtype(np.float64): -690.0}
#: The largest parameter of a kernel, in size: products with it do not overflow at once.
LARGEST_PARAMETER = 1e300
#: Kernel classes by name: what a model file can hold.
KERNELS: dict[str, type[Kernel]] = {}


class Derivatives(NamedTuple):
    """Values of a kernel and its two partial derivatives, each of shape (n_x, n_z).

    Attributes
    ----------
    values : ndarray of shape (n_x, n_z)
        k(x, z).
    by_product : ndarray of shape (n_x, n_z)
        The derivative by the inner product x.z.
    by_norm : ndarray of shape (n_x, n_z), or float
        The derivative by the squared norm of x.
    """

    values: Floats
    by_product: Floats
    by_norm: Floats | float


class Kernel:
    """A kernel k(x, z), as a frozen dataclass whose fields are its parameters.

    A subclass states its formula once, in :meth:`of_products`, in terms of the inner
    products x.z and the squared norms of x and z. A kernel that is not a function
    of these (the Laplacian kernel, say) overrides :meth:`evaluate` instead. That is enough to
    train with it. The rest is optional, each method for one purpose:

    - ``name``: saving and loading (the class must be imported before the file is loaded);
    - :meth:`derivatives` or, without ``of_products``, :meth:`values_and_gradient`: compression with
      synthetic centers;
    - :meth:`fits_float32`: faster training in single precision;
    - :meth:`c_code`, :meth:`scaled`: export to C, and to C with int8 or float16 storage;
    - :meth:`js_code`: export to JavaScript;
    - :meth:`onnx_nodes`: export to ONNX;
    - :meth:`on`: prediction on a GPU.

    Blocks of kernel values are formed in :mod:`kernlet.kernels.gram`, never here.
    """

    #: The name in model files; a class without one cannot be saved.
    name: ClassVar[str] = ""
    #: Whether every Gram matrix of the kernel is positive semi-definite.
    is_mercer: ClassVar[bool] = True
    #: Whether k(x + a, z + a) = k(x, z) for every a. Such kernels are evaluated about
    #: the median of the points, which keeps float32 accurate far from the origin.
    is_translation_invariant: ClassVar[bool] = False
    #: The least and largest value of a parameter, in the constructor and in model files.
    limits: ClassVar[dict[str, tuple[float, float]]] = {}
    #: In C, what one feature adds to the sum that :meth:`c_code` receives, for
    #: translation-invariant kernels; t is the difference of the two numbers.
    c_term: ClassVar[str] = "t * t"
    #: The same in JavaScript.
    js_term: ClassVar[str] = "t * t"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__dict__.get("name")
        if not name:
            return
        other = KERNELS.get(name, cls)
        # The same class defined again (a notebook cell run twice) replaces the first.
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"The kernel name {name!r} is taken by {other!r}; choose another.")
        KERNELS[name] = cls

    def __post_init__(self) -> None:
        for name, (low, high) in self.limits.items():
            value = getattr(self, name)
            if not _is_within(value, low, high):
                given = f", not {value!s:.20}" if np.ndim(value) == 0 else ""
                raise ValueError(f"kernel.{name} must be from {low:g} to {high:g}{given}.")

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """Kernel values from inner products.

        Parameters
        ----------
        products : ndarray of shape (n_x, n_z)
            Inner products x.z; may be overwritten with the result.
        x_norms : ndarray of shape (n_x, 1)
            Squared norms of the x.
        z_norms : ndarray of shape (1, n_z)
            Squared norms of the z.

        Returns
        -------
        values : ndarray of shape (n_x, n_z)
        """
        raise TypeError(f"{type(self).__name__} must define of_products or evaluate.")

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Kernel values for two small sets of points, dense or sparse."""
        from kernlet.kernels.gram import inner_products

        return self.of_products(inner_products(X, Z), x_norms, z_norms)

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """Kernel values with their derivatives by x.z and by the squared norm of x.

        The arguments are kept. The gradient of k(x, z) by x is by_product z + 2 by_norm x.
        """
        raise TypeError(f"{type(self).__name__} has no derivatives: define derivatives.")

    def values_and_gradient(
        self, X: Floats, Z: Floats
    ) -> tuple[Floats, Callable[[Floats], Floats]]:
        """K(X, Z) of two small dense sets of points, and a function for gradients by X.

        The function takes weights of shape (n_x, n_z) and returns
        sum_j weights[i, j] dk(x_i, z_j)/dx_i, one row for each x_i.
        """
        x_norms, z_norms = (np.einsum("ij,ij->i", A, A) for A in (X, Z))
        values, by_product, by_norm = self.derivatives(X @ Z.T, x_norms[:, None], z_norms[None, :])

        def gradient(weights: Floats) -> Floats:
            # Chain rule through x.z (whose gradient is z) and through |x|^2 (gradient 2 x).
            through_products: Any = (weights * by_product) @ Z
            return through_products + 2.0 * np.sum(weights * by_norm, axis=1, keepdims=True) * X

        return values, gradient

    def smoothed(self, width: float) -> Kernel:
        """The kernel or, where it has cusps, a differentiable one that tends to it with the width.

        A search for centers by gradients would stop at the first cusp.
        """
        return self

    def log_factor(self, differences: Floats) -> Floats:
        """Of a product kernel, the logarithm of the factor of one feature, given x_i - z_i.

        Centers are on the last axis but one. A kernel that defines it is the product of these
        factors, and has exact Shapley values (see :func:`kernlet.shapley_values`).
        """
        raise TypeError(f"{type(self).__name__} is not a product over features.")

    def as_products(self, tol: float) -> tuple[list[tuple[float, Kernel]], float] | None:
        """The kernel as a sum of weights times product kernels; None where it is not one.

        Also a bound on what the sum differs from the kernel, about ``tol`` at most.
        """
        is_product = type(self).log_factor is not Kernel.log_factor
        return ([(1.0, self)], 0.0) if is_product else None

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether float32 gives about three digits of k for points of this squared norm.

        False, which is always safe, unless a kernel knows better.
        """
        return False

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, as JSON values; a parameter per center is an array.

        Examples
        --------
        >>> from kernlet.kernels.rbf import RBF
        >>> RBF(0.5).to_dict()
        {'name': 'rbf', 'gamma': 0.5}
        """
        if KERNELS.get(self.name) is not type(self):
            raise ValueError(
                f"{self!r} is code, and a file holds none: give its class a name to save and "
                f"export it (the kernels {', '.join(KERNELS)} have one)."
            )
        values = {
            p.name: _as_json(p.name, p.type, getattr(self, p.name)) for p in _parameters(type(self))
        }
        for p in _parameters(type(self)):  # what is written can be read
            _checked(type(self), p.name, p.type, values)
        return {"name": self.name} | values

    def describe(self, digits: int = 6) -> str:
        """Name and parameters in a line, such as "rbf, gamma 0.5"."""
        parameters = self.to_dict()
        texts = [parameters.pop("name")]
        for name, value in parameters.items():
            ends = dict.fromkeys(f"{end:.{digits}g}" for end in (np.min(value), np.max(value)))
            texts.append(f"{name} {' to '.join(ends)}")
        return ", ".join(texts)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Kernel:
        """The kernel that :meth:`to_dict` described, every parameter checked.

        Examples
        --------
        >>> from kernlet.kernels.base import Kernel
        >>> Kernel.from_dict({"name": "rbf", "gamma": "wide"})
        Traceback (most recent call last):
            ...
        ValueError: kernel.gamma must be a finite number, at most 1e300 in size.
        """
        kind = KERNELS.get(values.get("name", ""))
        if kind is None:
            raise ValueError(
                f"kernel.name must be one of {', '.join(KERNELS)}, not {values.get('name')!r:.40}; "
                "import the module that defines your own kernel first."
            )
        parameters = _parameters(kind)
        return kind(**{p.name: _checked(kind, p.name, p.type, values) for p in parameters})

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """A kernel k' and a factor c with k(x, z) = c k'(x, z / step).

        For translation-invariant kernels k(x, z) = c k'(x / step, z / step). It lets a table of
        small integers take the place of the centers.
        """
        raise ValueError(
            f"{type(self).__name__} cannot be evaluated in other units: define scaled, or store "
            "float32."
        )

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Kernel values between points that are on a device, such as a GPU."""
        raise TypeError(
            f"A machine with {self!r} computes with numpy only: convert the rows first."
        )

    def c_code(self, s: str) -> str:
        """C statements that return k as a float, given the expression ``s``.

        s is x.z or, for translation-invariant kernels, the sum of ``c_term`` over the features.
        The code may use the float variables a and b, the uint32_t i, EXP(v),
        hyperbolic_tangent(v), log_plus_one(v) and functions of <math.h>.
        """
        raise ValueError(f"{type(self).__name__} cannot be exported to C: define c_code.")

    def c_parameter(self, name: str) -> str:
        """A parameter as a C expression: a constant, or the entry of center j."""
        value = getattr(self, name)
        return c_float(np.ravel(value)[0]) if np.size(value) == 1 else f"{name}_at(j)"

    def js_code(self, s: str) -> str:
        """A JavaScript expression of k in double precision, given the expression ``s``.

        s is x.z or, for translation-invariant kernels, the sum of ``js_term`` over the features.
        """
        raise ValueError(f"{type(self).__name__} cannot be exported to JavaScript: define js_code.")

    def js_parameter(self, name: str) -> str:
        """A parameter as a JavaScript expression: a constant, or the entry of center j."""
        value = getattr(self, name)
        return repr(float(np.ravel(value)[0])) if np.size(value) == 1 else f"{name}[j]"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """Add the nodes of K(x, centers) to a :class:`kernlet.export.onnx.Graph`.

        ``x`` names the rows, of shape (n_rows, n_features); the name of the values, of shape
        (n_rows, n_centers), is returned.
        """
        raise ValueError(f"{type(self).__name__} cannot be exported to ONNX: define onnx_nodes.")

    def __call__(self, X: Matrix, Z: Matrix) -> Floats:
        """Kernel matrix between the rows of X and the rows of Z."""
        from kernlet.kernels.gram import kernel_matrix

        return kernel_matrix(self, X, Z)


def _parameters(kind: type[Kernel]) -> tuple[Field[Any], ...]:
    return fields(kind) if is_dataclass(kind) else ()


def _as_json(name: str, annotation: Any, value: Any) -> Any:
    if np.ndim(value):
        return np.asarray(value)
    if annotation not in ("int", int):
        return float(value)
    if value != int(value):
        raise ValueError(f"kernel.{name} must be an integer to be saved, not {value}.")
    return int(value)


def _checked(kind: type[Kernel], name: str, annotation: Any, values: Mapping[str, Any]) -> Any:
    """A parameter from a file, which may hold anything."""
    value: Any = values.get(name)
    low, high = kind.limits.get(name, (-math.inf, math.inf))
    if annotation in ("int", int):
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"kernel.{name} must be an integer from {low:g} to {high:g}.")
        return value
    is_array = isinstance(value, np.ndarray) and "Floats" in str(annotation)
    # Integers beyond float64 would overflow in float(); NaN fails every comparison.
    is_number = type(value) in (int, float) and abs(value) <= LARGEST_PARAMETER
    if not (np.isfinite(value).all() if is_array else is_number):
        raise ValueError(f"kernel.{name} must be a finite number, at most 1e300 in size.")
    if not _is_within(value, low, high):
        raise ValueError(f"kernel.{name} must be from {low:g} to {high:g}.")
    return value if is_array else float(value)


def _is_within(value: Any, low: float, high: float) -> bool:
    """Whether a parameter, or all of an array, is in a range; NaN is not."""
    if isinstance(value, np.generic | np.ndarray):  # a limit may be too large for float32
        value = value.astype(np.float64)
    return bool(np.all((value >= low) & (value <= high)))


def as_float32(values: Any, what: str = "A number of") -> Any:
    """Numbers in float32, for exports; those that overflow are refused."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(values).astype(np.float32)
    if not np.isfinite(numbers).all():
        wrong = np.ravel(values)[~np.isfinite(numbers.ravel())][0]
        raise ValueError(
            f"{what} {wrong:.3g} does not fit in float32: scale the features, for example with a "
            "StandardScaler in front."
        )
    return numbers


def c_float(value: Any) -> str:
    """A float constant of C, such as 1.0f."""
    with np.errstate(over="ignore"):  # one by one, as_float32 would be five times slower
        number = np.float32(value)
    if not math.isfinite(number):
        as_float32(value)
    text = f"{number:.9g}"  # nine digits tell any two float32 numbers apart
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def require_mercer(kernel: Kernel, what: str) -> None:
    """Refuse a kernel without a feature space; ``what`` needs one (the subject of a sentence)."""
    if not kernel.is_mercer:
        raise ValueError(
            f"{what} needs a positive semi-definite kernel, which {kernel!r} is not. Use "
            "another kernel, such as rbf."
        )
