"""Parsers: how an answer is found in what a model said."""

from seatrial.env.parsers.parser import Parser
from seatrial.env.parsers.think_parser import MaybeThinkParser, ThinkParser
from seatrial.env.parsers.xml_parser import XMLParser

__all__ = ["MaybeThinkParser", "Parser", "ThinkParser", "XMLParser"]
