"""OpenVINO on the processor, for the least latency of one request; bf16 uses AMX where the processor has it."""
from .timing import milliseconds_of, pixels_of, stored


class OpenVino:
    name = "OpenVINO"
    settings = ("latency",)

    @staticmethod
    def takes(work):
        return work["kind"] == "image"

    def __init__(self, work, setting):
        import openvino
        core = openvino.Core()
        model = core.read_model(work["onnx"])
        model.reshape([work["batch"], 3, 224, 224])
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": work["type"], "INFERENCE_NUM_THREADS": work["threads"], "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY"})
        self.request = compiled.create_infer_request()
        self.request.set_input_tensor(openvino.Tensor(pixels_of(work)))

    def forward(self):
        self.request.infer()
        return self.request.get_output_tensor().data

    def turn(self):
        return {"ms": milliseconds_of(self.forward)}

    def output(self):
        return stored(self.forward())
