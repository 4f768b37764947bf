__all__: list[str]

from checkwise.study.report.build import write_report as write_report
from checkwise.study.report.facts import RULES as RULES
from checkwise.study.report.stages import MADE as MADE
from checkwise.study.report.stages import METRICS as METRICS
from checkwise.study.report.stages import STAGES as STAGES
