"""All that the framework asks of a plug-in, typed, with what happens where a plug-in lacks it."""

from .adapter import Plugin as Plugin
from .plugin_class import ATTRIBUTES as ATTRIBUTES
from .plugin_class import METHODS as METHODS
from .plugin_class import PluginClass as PluginClass
from .protocols import *  # noqa: F403
