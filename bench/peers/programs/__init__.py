"""The programs that Ballast is compared with, one module each. A new one is a module and its name here.

A peer is a class with a name; `settings`, of which the fastest is used; `takes(work)`, whether it does such work; and, in
a process of its own, __init__(work, setting), turn() -> {"ms": ...} and output(...) -> the path of a file with what it
computed (f32), or what else the kind of work compares. Libraries are imported when a peer is made.
"""
from .llama_cpp import LlamaCpp
from .ncnn import Ncnn
from .onnx_runtime import OnnxRuntime
from .openvino import OpenVino
from .pytorch import PyTorchImages, PyTorchText
from .pytorch_training import PyTorchTraining
from .tokenizer_packages import HuggingFaceTokenizers, Tiktoken

PEERS = (LlamaCpp, PyTorchText, PyTorchImages, PyTorchTraining, OnnxRuntime, OpenVino, Ncnn, Tiktoken, HuggingFaceTokenizers)
