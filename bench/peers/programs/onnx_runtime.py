"""ONNX Runtime on its CPU provider, all graph optimisations on."""
from .timing import milliseconds_of, pixels_of, stored


class OnnxRuntime:
    name = "ONNX Runtime"
    settings = ("all optimisations",)

    @staticmethod
    def takes(work):
        return work["kind"] == "image" and work["type"] == "f32"  # it has no convolution in bf16

    def __init__(self, work, setting):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = work["threads"]
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(work["onnx"], options, providers=["CPUExecutionProvider"])
        self.input = {self.session.get_inputs()[0].name: pixels_of(work)}

    def forward(self):
        return self.session.run(None, self.input)[0]

    def turn(self):
        return {"ms": milliseconds_of(self.forward)}

    def output(self):
        return stored(self.forward())
