"""One name for a GPU, whatever a cloud, a driver or a person calls it."""

from __future__ import annotations

import pytest

from provisioner.gpus import GPUS, canonical_gpu


@pytest.mark.parametrize(
    ("said", "memory_gib", "name"),
    [
        # what EC2, Google, Azure, Lambda and SkyPilot's catalogue say
        ("A100", 40, "A100"),
        ("A100", 80, "A100-80GB"),
        ("a100-80gb", None, "A100-80GB"),
        ("nvidia-tesla-a100", None, "A100"),
        ("nvidia-a100-80gb", None, "A100-80GB"),
        ("nvidia-h100-80gb", None, "H100"),
        ("nvidia-h100-mega-80gb", None, "H100-MEGA"),
        ("nvidia-h200-141gb", None, "H200"),
        ("nvidia-l4", None, "L4"),
        ("V100", 31.25, "V100-32GB"),
        ("V100-32GB", None, "V100-32GB"),
        ("T4g", 16, "T4g"),
        ("RTX6000-Ada", None, "RTX 6000 ADA"),
        ("RTXPRO6000", None, "RTX PRO 6000"),
        ("RTX PRO Server 6000", None, "RTX PRO 6000"),
        ("RTX4090", None, "RTX 4090"),
        ("RTX6000", None, "RTX 6000"),
        # what nvidia-smi and rocm-smi say
        ("NVIDIA A100-SXM4-40GB", None, "A100"),
        ("NVIDIA A100-SXM4-80GB", None, "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", 79.2, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", 79.6, "H100"),
        ("NVIDIA H100 NVL", 93.6, "H100-NVL"),
        ("NVIDIA GH200 480GB", None, "GH200"),
        ("Tesla V100-SXM2-16GB", None, "V100"),
        ("Tesla T4", 15, "T4"),
        ("NVIDIA GeForce RTX 4090", 24, "RTX 4090"),
        ("NVIDIA RTX A6000", 48, "A6000"),
        ("Quadro RTX 6000", 24, "RTX 6000"),
        ("NVIDIA RTX 6000 Ada Generation", 48, "RTX 6000 ADA"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, "RTX PRO 6000"),
        ("AMD Instinct MI300X OAM", 192, "MI300X"),
        # what is not known keeps its name
        ("Radeon Pro V520", 8, "Pro-V520"),
        ("Gaudi HL-205", None, "Gaudi-HL-205"),
        ("NVIDIA", None, "NVIDIA"),
    ],
)
def test_one_name(said: str, memory_gib: float | None, name: str) -> None:
    assert canonical_gpu(said, memory_gib) == name


@pytest.mark.parametrize("name", sorted(GPUS))
def test_a_name_of_the_table_is_its_own(name: str) -> None:
    assert canonical_gpu(name) == canonical_gpu(name.lower()) == name


def test_the_table_ranks_what_everybody_knows_to_be_ranked() -> None:
    order = ["B200", "H200", "A100", "V100", "T4", "P4"]
    assert sorted(order, key=lambda name: -GPUS[name].tflops) == order
    assert GPUS["A100-80GB"].memory_gib == 2 * GPUS["A100"].memory_gib
