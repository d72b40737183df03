"""All that the framework asks of a plug-in, typed, with what happens where a plug-in lacks it."""

from .adapter import Plugin as Plugin
from .plugin_class import ATTRIBUTES as ATTRIBUTES
from .plugin_class import METHODS as METHODS
from .plugin_class import PluginClass as PluginClass
from .protocols import Answers as Answers
from .protocols import Changes as Changes
from .protocols import Clients as Clients
from .protocols import NoWatch as NoWatch
from .protocols import PlanAnswers as PlanAnswers
from .protocols import PlanComparison as PlanComparison
from .protocols import PreparedQueries as PreparedQueries
from .protocols import SearchedArgument as SearchedArgument
from .protocols import ServerMonitor as ServerMonitor
from .protocols import Watch as Watch
from .protocols import Writable as Writable
from .protocols import Writers as Writers
from .protocols import Writes as Writes
from .protocols import client_facts as client_facts
from .protocols import dashboard_panels as dashboard_panels
from .protocols import freeze_answers as freeze_answers
from .protocols import server_processes as server_processes
from .protocols import settle as settle
