"""JavaScript modules of machines, run in one process of node for many of them."""

import json
import shutil
import subprocess

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")

_RUNNER = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const attempt = (call) => {
  try {
    return { value: call() };
  } catch (error) {
    return { error: error.message };
  }
};
const jobs = JSON.parse(readFileSync(process.argv[2], "utf8"));
const dates = (cell) => (cell && cell.date ? new Date(cell.date) : cell);
const results = [];
for (const { path, rows: given, cells } of jobs) {
  const rows = given.map((row) => row.map((number) => number ?? NaN)); // JSON has no NaN
  const model = await import(pathToFileURL(path));
  const result = { features: model.features, classes: model.classes };
  for (const name of ["predict", "scores", "probabilities"]) {
    result[name] = rows.map((row) => attempt(() => model[name](row)));
  }
  const decoded = (row) =>
    row && typeof row === "object" && !Array.isArray(row)
      ? Object.fromEntries(Object.entries(row).map(([name, cell]) => [name, dates(cell)]))
      : row;
  result.encode = cells.map((row) => attempt(() => model.encode(decoded(row))));
  results.push(result);
}
console.log(JSON.stringify(results));
"""


def run_modules(folder, jobs):
    """For each job (path, rows and cells) what the functions of the module return.

    Answers are lists with {"value": ...} or {"error": message} for each row.
    """
    jobs = [
        {"path": str(path), "rows": [list(map(_json, row)) for row in rows], "cells": cells}
        for path, rows, cells in jobs
    ]
    (folder / "run.mjs").write_text(_RUNNER, "utf-8")
    (folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    command = [NODE, str(folder / "run.mjs"), str(folder / "jobs.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _json(number):
    return None if number != number else float(number)


def values(answers):
    """The values of all rows, none of which failed."""
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert not errors, errors[0]
    return [answer["value"] for answer in answers]
