"""The configuration: what is not known, not of the type or out of range is refused by name."""

from __future__ import annotations

import json

import pytest

from trainer_agent.recipes.image_classification import Config
from trainer_agent.recipes.strict import ConfigError, fingerprint, parse


def test_defaults_and_given_values() -> None:
    config = parse(Config, '{"epochs": 3, "learning_rate": 1, "threads": null}')
    assert (config.epochs, config.learning_rate, config.threads) == (3, 1.0, None)
    assert isinstance(config.learning_rate, float)
    assert config.batch_size == Config().batch_size


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"epocs": 3}', "Unknown key 'epocs'. Did you mean 'epochs'?"),
        ('{"zzzz": 3}', "Unknown key 'zzzz'. Known are data, epochs"),
        ('{"epochs": "3"}', 'epochs is "3": it must be of type int.'),
        ('{"epochs": true}', "epochs is true: it must be of type int."),
        ('{"epochs": 0}', "epochs is 0: it must be 1 to 100000."),
        ('{"epochs": null}', "epochs is null: it must be of type int."),
        ('{"dropout": NaN}', "NaN is no number here."),
        ('{"dropout": 1e999}', "dropout is Infinity: it must be of type float."),
        ('{"data": "mnist"}', "it must be one of digits, mnist5k. Did you mean 'mnist5k'?"),
        ('{"optimizer": "adamw"}', "Did you mean 'AdamW'?"),
        ('{"optimizer": "Optimizer"}', "optimizer is"),
        ('{"epochs": 1, "epochs": 2}', "The key 'epochs' is given twice."),
        ("[1]", "must be a JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(Config, text)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 1}, False),
        ({"augment": 0}, False),
        ({"epochs": 13}, False),
        ({"keep": 5}, True),
        ({"checkpoint_every_steps": 7}, True),
        ({"threads": 2}, True),
    ],
)
def test_the_fingerprint_covers_what_decides_the_result(change: dict[str, int], same: bool) -> None:
    changed = parse(Config, json.dumps(change))
    assert (fingerprint("r", changed) == fingerprint("r", Config())) is same
