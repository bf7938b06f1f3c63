"""usage: clients.py URL CHAT TOOLS WORDS: the Python clients of OpenAI, LangChain, Ollama and Anthropic against a running server,
and the names of its models (see cases.py)."""

import sys

import anthropic_cases
import langchain_cases
import ollama_cases
import openai_cases
import openai_tool_cases
from cases import Served, run_cases

if __name__ == "__main__":
    for clients in (openai_cases, openai_tool_cases, langchain_cases, ollama_cases, anthropic_cases):
        run_cases(clients.CASES, Served(*sys.argv[1:]))
