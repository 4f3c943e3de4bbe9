"""The tool fixtures serve the core's own tests too."""

from tests.plugins.conftest import *  # noqa: F403
