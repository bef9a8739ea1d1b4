"""A configuration and the plugins that it names: from a file and its flags to what an `Assembly` is built of.

A plugin of one's own comes in three ways, and in no other; nothing is ever loaded from the cluster's objects:

    a file          `pluginSources: [{file: cheap.py}]` below a `--plugin-directory`; or `--plugin cheap.py`
    a module        `pluginSources: [{module: acme.policies}]`; or `--plugin acme.policies`
    a distribution  an entry point of the group `kscheduler.plugins`, loaded when a profile names it

Modules, from the bottom up:

    declared        which plugins a module declares
    class_factory   a plugin's class as a factory: arguments and handle by the names of its parameters
    plugin_file     a file, checked and run once per content
    reader          all sources of a configuration, as the port that `config.loader` asks for argument types
    configured      the result: configuration, registry, and where each plugin came from

Limits: a module that was imported once stays as it is until the process ends; only files are read again.
"""

from kscheduler.loading.configured import ConfigurationReader, Configured
from kscheduler.loading.reader import PluginOrigin

__all__ = ["ConfigurationReader", "Configured", "PluginOrigin"]
