"""ncnn, one image at a time, which is all that it takes."""
from .timing import milliseconds_of, pixels_of, stored


class Ncnn:
    name = "ncnn"
    settings = ("winograd and packing", "no winograd")

    @staticmethod
    def takes(work):
        return work["kind"] == "image" and work["batch"] == 1

    def __init__(self, work, setting):
        import ncnn
        self.ncnn, self.pixels = ncnn, pixels_of(work)[0]
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = work["threads"]
        options.use_winograd_convolution = setting != "no winograd"
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.use_bf16_storage = work["type"] == "bf16"
        if self.net.load_param(work["ncnn"] + ".param") != 0 or self.net.load_model(work["ncnn"] + ".bin") != 0:
            raise RuntimeError("ncnn does not load the model")

    def forward(self):
        with self.net.create_extractor() as extractor:
            extractor.input("in0", self.ncnn.Mat(self.pixels))
            _, result = extractor.extract("out0")
            return self.numbers(result)

    @staticmethod
    def numbers(mat):
        import numpy
        return numpy.array(mat)

    def turn(self):
        return {"ms": milliseconds_of(self.forward)}

    def output(self):
        return stored(self.forward())
