# Each target makes .venv by itself; nothing but python3 (>= 3.11) and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Real data sets lie in this folder where it exists; without it, loaders ask OpenML.
ifneq ($(wildcard ../shared/data/.),)
export KERNLET_DATA ?= $(abspath ../shared/data)
endif
# One BLAS thread: steadier figures, and no worse on matrices of this size.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# What test-floor installs: by default the oldest versions that pyproject.toml allows; with
# FLOOR=1.7, that scikit-learn and the newest of the rest (but polars: scikit-learn 1.7 reads the
# names of columns through a protocol that polars 2 does not have).
OLDEST := 1.6
FLOOR ?= $(OLDEST)
FLOOR_VENV := .venv-floor-$(FLOOR)

# What users install, without kernlet itself, which no list of known weaknesses names.
AUDIT_VENV := .venv-audit

# Compilers and emulators of microcontrollers, rustc and node: Debian's packages.
DEVICE_TOOLS := gcc gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-avr avr-libc \
  qemu-user qemu-system-arm simavr libsimavr-dev nodejs arduino-builder arduino-core-avr cmake rustc
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: device-tools demo test test-all test-floor fuzz audit lint bench reproduce results walk docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@ $(VENV)/.runtime

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@ $(VENV)/.runtime

# What sizes, instruction counts and tests of exported code use, on Debian and Ubuntu.
device-tools:
	$(SUDO) apt-get install --yes --no-install-recommends $(DEVICE_TOOLS)
	@if command -v npm > /dev/null; then \
	  $(SUDO) npm install --global @micropython/micropython-webassembly-pyscript; fi

demo: $(VENV)/.runtime
	$(ONE_THREAD) $(BIN)/kernlet demo --folder demo

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(ONE_THREAD) $(BIN)/python -m pytest --numprocesses=2 -m "not slow" $(ARGS)

# With the slow tests too, as continuous integration does.
test-all: lint
	$(ONE_THREAD) $(BIN)/python -m pytest --numprocesses=2 $(ARGS)

# Frames of pandas 3 and polars 2 are newer than scikit-learn 1.7 and cannot be read by all of it.
$(FLOOR_VENV)/.test: pyproject.toml Makefile
	$(PYTHON) -m venv $(FLOOR_VENV)
	printf 'scikit-learn==$(FLOOR).*\npandas<3\npolars<2\n' > $(FLOOR_VENV)/versions.txt
ifeq ($(FLOOR),$(OLDEST))
	grep -oE '"[a-z0-9-]+(\[[a-z,]+\])?>=[0-9.]+"' pyproject.toml \
	  | sed -E 's/"([a-z0-9-]+).*>=(.*)"/\1==\2.*/' > $(FLOOR_VENV)/versions.txt
endif
	$(FLOOR_VENV)/bin/python -m pip install --quiet --editable ".[test]" \
	  --constraint $(FLOOR_VENV)/versions.txt
	@touch $@

# The whole suite on older versions of the dependencies.
test-floor: $(FLOOR_VENV)/.test
	$(ONE_THREAD) $(FLOOR_VENV)/bin/python -m pytest --numprocesses=2 $(ARGS)

# Random cases of every reader, estimator and export: make fuzz ARGS="--minutes 30", or
# ARGS="files --cases 200000", or ARGS=--campaign; ARGS=--help names the targets.
fuzz: $(VENV)/.test
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

$(VENV)/.audit: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[audit]"
	@touch $@ $(VENV)/.runtime

$(AUDIT_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv --without-pip --clear $(AUDIT_VENV)
	$(BIN)/python -m pip --python $(AUDIT_VENV) install --quiet ".[cli,dask,onnx]"
	$(BIN)/python -m pip --python $(AUDIT_VENV) uninstall --quiet --yes kernlet
	@touch $@

# A bill of materials (CycloneDX) of what users install, and known weaknesses of it. The second
# part needs a network that reaches a vulnerability service; --strict: else it fails.
audit: $(VENV)/.audit $(AUDIT_VENV)/.installed
	@mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library \
	  --output-reproducible --output-file dist/kernlet.cdx.json $(AUDIT_VENV)/bin/python
	@echo "wrote dist/kernlet.cdx.json"
	$(BIN)/pip-audit --strict --progress-spinner off $(ARGS) \
	  --path $$($(AUDIT_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  || { echo "Not passed: weaknesses are listed above, or the network has no vulnerability service" \
	  "(ARGS='--vulnerability-service osv' asks another)."; exit 1; }

bench: $(VENV)/.bench
	$(ONE_THREAD) $(BIN)/python -m benchmarks $(ARGS)

# Tables of the five papers: make reproduce ARGS="fung2002 --table 2 --quick".
reproduce: $(VENV)/.runtime
	$(ONE_THREAD) $(BIN)/python -m papers $(ARGS)

# Pages, pictures and README tables of the stored results; make results ARGS=--check writes nothing.
results: $(VENV)/.bench
	$(BIN)/python -m benchmarks.results $(ARGS)

# Files that a reader of a fit opens, sizes of folders, modules with one caller.
walk: $(VENV)/.runtime
	$(ONE_THREAD) $(BIN)/python -m benchmarks.walk $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) $(AUDIT_VENV) .venv-floor-* site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
