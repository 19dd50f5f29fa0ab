"""Each class name of the product has one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.sources import PACKAGES, python_files, tree_of

# Each file of a model is read by itself, and its classes are named by what they are.
MODEL_CLASSES = {"CausalLanguageModel", "Denoiser", "ImageClassifier", "MaskedLanguageModel"}


def test_no_two_classes_have_the_same_name() -> None:
    homes = defaultdict(list)
    for file in python_files(*PACKAGES):
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name.strip("_")].append(file)
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert set(shared) >= MODEL_CLASSES
    assert {name: files for name, files in shared.items() if name not in MODEL_CLASSES} == {}
