"""Model files of LIBSVM, made from fitted machines of scikit-learn."""


def file_text(machine, more=""):
    """A fitted SVR, NuSVR or OneClassSVM as svm-train would save it."""
    names = {"poly": "polynomial"}
    fields = {
        "poly": ("degree", "gamma", "coef0"),
        "rbf": ("gamma",),
        "sigmoid": ("gamma", "coef0"),
    }
    kernel = machine.kernel
    values = {"gamma": float(machine._gamma), "degree": machine.degree, "coef0": machine.coef0}
    header = [f"svm_type {machine._impl}", f"kernel_type {names.get(kernel, kernel)}"]
    header += [f"{field} {values[field]!r}" for field in fields.get(kernel, ())]
    rho = -float(machine.intercept_[0])
    header += ["nr_class 2", f"total_sv {len(machine.support_)}", f"rho {rho!r}"]
    lines = [
        f"{float(coef)!r} " + " ".join(f"{i + 1}:{float(v)!r}" for i, v in enumerate(row))
        for coef, row in zip(machine.dual_coef_[0], machine.support_vectors_, strict=True)
    ]
    return "\n".join([*header, *([more] if more else []), "SV", *lines, ""])
