#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/tensor_choice.h"
#include "apps/ballast/output/array_text.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/numpy_text.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/open.h"
#include "ballast/archive/slice.h"
#include "ballast/formats/numpy/npy.h"
#include "ballast/tensor/elements.h"

namespace ballast::cli {

namespace {

enum class ShowFormat : unsigned char { kText, kCsv, kNpy, kRaw };

struct ShowFlags {
  std::string path;
  std::vector<std::string> names;
  std::vector<std::string> only;
  ShowFormat format = ShowFormat::kText;
  uint64_t precision = 8;
  bool all = false;
  bool json = false;
};

constexpr uint64_t kSummaryAbove = 1000;  // elements; fewer are all written
constexpr size_t kWidthOfPipes = 80;      // rows are broken there too: nobody parses these, there is --format csv
constexpr size_t kFlushAbove = size_t{1} << 20;

// ---------------------------------------------------------------- what to show

Error nothing_named(const Archive& archive, const std::string& path) {
  if (archive.tensors().empty()) return make_error(ErrorCode::kNotFound, fmt::format("{}: contains no tensors", path));
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: choose one or more of its {}, for example \"{}\"; `ballast inspect {}` lists them",
                                path, counted(archive.tensors().size(), "tensor"), archive.tensors()[0].name, path));
}

Result<std::vector<TensorSlice>> find_slices(const Archive& archive, const ShowFlags& flags) {
  std::vector<TensorSlice> slices;
  for (const std::string& name : flags.names) {
    auto slice = find_tensor_slice(archive, name);
    if (!slice && slice.error().code == ErrorCode::kNotFound) {
      const size_t bracket = name.find('[');
      return no_such_tensor(archive.tensors(), flags.path, std::string_view(name).substr(0, bracket));
    }
    if (!slice) return std::move(slice).error();
    slices.push_back(std::move(*slice));
  }
  if (!flags.only.empty()) {
    BALLAST_TRY(const std::vector<size_t> found, select_tensors(archive, flags.only));
    for (const size_t index : found) slices.push_back({index, {}, ""});
    if (slices.empty()) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("{}: --only matches no tensor; `ballast inspect {}` lists them", flags.path, flags.path));
    }
  }
  if (slices.empty() && archive.tensors().size() == 1) slices.push_back({0, {}, ""});
  if (slices.empty()) return nothing_named(archive, flags.path);
  return slices;
}

Status flush_if_large(Console& console) {
  if (console.out().size() > kFlushAbove) console.flush();
  if (console.reader_gone()) return make_error(ErrorCode::kCancelled, "nobody reads the output");
  return {};
}

class Show {
 public:
  Show(const ShowFlags& flags, const Archive& archive, Console& console)
      : flags_(flags), archive_(archive), console_(console) {}

  Status run(const std::vector<TensorSlice>& slices) {
    // Everything that can be refused is, before the first line.
    for (const TensorSlice& slice : slices) {
      BALLAST_TRY(Selection selection, select(archive_.tensors()[slice.tensor], slice.slice));
      BALLAST_CHECK(check(archive_.tensors()[slice.tensor]));
      selections_.push_back(std::move(selection));
    }
    if (flags_.json) return print_json(slices);
    const bool binary = flags_.format == ShowFormat::kNpy || flags_.format == ShowFormat::kRaw;
    if (binary && slices.size() > 1) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("npy and raw hold one tensor, but {} are selected", slices.size()));
    }
    for (size_t i = 0; i < slices.size(); ++i) BALLAST_CHECK(show(slices[i], selections_[i], i == 0));
    return {};
  }

 private:
  Status check(const TensorInfo& tensor) const {
    if (flags_.format == ShowFormat::kRaw && !flags_.json) return {};
    if (flags_.format == ShowFormat::kNpy && !flags_.json) {
      if (auto layout = npy_layout(as_shown(tensor), {}); !layout) return std::move(layout).error();
      return {};
    }
    if (is_arithmetic(tensor.dtype) || numpy_type(tensor)) return {};
    if (is_block(tensor.dtype)) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: tensor \"{}\" is {}, a type whose values cannot be decoded; "
                                    "--format raw prints its bytes",
                                    flags_.path, tensor.name, dtype_name(tensor.dtype)));
    }
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("{}: tensor \"{}\" is {}, whose values cannot be printed; --format raw prints its bytes",
                    flags_.path, tensor.name, tensor.type_name()));
  }

  // Values of blocks are f32.
  static TensorInfo as_shown(TensorInfo tensor) {
    if (is_block(tensor.dtype) && is_arithmetic(tensor.dtype)) tensor.dtype = DType::kF32;
    return tensor;
  }

  Status show(const TensorSlice& slice, const Selection& selection, bool first) {
    switch (flags_.format) {
      case ShowFormat::kText: return print_text(slice, selection, first);
      case ShowFormat::kCsv:
        if (!first) console_.out() += '\n';
        return with_elements(slice.tensor, selection,
                             [&](const auto& elements) { return write_csv(elements, console_.out(), flush_); });
      case ShowFormat::kNpy: return write_npy(slice, selection);
      case ShowFormat::kRaw: return write_bytes(slice, selection);
    }
    return {};
  }

  // Calls `write` with a stream of numbers or, for NumPy's strings and dates, of words.
  template <typename Write>
  Status with_elements(size_t tensor, const Selection& selection, Write&& write) const {
    if (auto type = numpy_type(archive_.tensors()[tensor]))
      return write(WordStream(archive_, tensor, selection, std::move(*type)));
    return write(ValueStream(archive_, tensor, selection));
  }

  std::string title(const TensorSlice& slice, const Selection& selection) const {
    const TensorInfo& tensor = archive_.tensors()[slice.tensor];
    std::string text = fmt::format("  {} {}", shown_type(tensor), selection.shape.to_string());
    if (!slice.text.empty()) text += fmt::format(" of {}", tensor.shape.to_string());
    return text;
  }

  Status print_text(const TensorSlice& slice, const Selection& selection, bool first) {
    std::string& out = console_.out();
    if (!first) out += '\n';
    append_painted(out, console_.output(), Paint::kBold, printable(archive_.tensors()[slice.tensor].name + slice.text));
    append_painted(out, console_.output(), Paint::kDim, title(slice, selection));
    out += '\n';
    const size_t width = console_.output().width != 0 ? console_.output().width : kWidthOfPipes;
    ArrayLayout layout{static_cast<size_t>(flags_.precision), width, 0, selection.shape};
    if (flags_.all || selection.elements <= kSummaryAbove) {
      return with_elements(slice.tensor, selection,
                           [&](const auto& elements) { return write_array(elements, layout, out, flush_); });
    }
    // Many short axes can still be too much at three values from each end.
    layout.edge = selection.edges(3).elements <= 10 * kSummaryAbove ? 3 : 1;
    const Selection edges = selection.edges(layout.edge);
    return with_elements(slice.tensor, edges,
                         [&](const auto& elements) { return write_array(elements, layout, out, flush_); });
  }

  Status print_json(const std::vector<TensorSlice>& slices) {
    std::string& out = console_.out();
    JsonWriter head;
    head.begin_object();
    add_text(head, "path", flags_.path);
    out += head.take() + ",\"tensors\":[";
    for (size_t i = 0; i < slices.size(); ++i) {
      const TensorInfo& tensor = archive_.tensors()[slices[i].tensor];
      JsonWriter json;
      json.begin_object();
      add_text(json, "name", tensor.name);
      add_text(json, "dtype", dtype_name(tensor.dtype));
      json.key("shape").numbers(selections_[i].shape.dims());
      json.key("tensor_shape").numbers(tensor.shape.dims());
      add_text(json, "slice", slices[i].text);
      out += (i == 0 ? "" : ",") + json.take() + ",\"values\":";
      BALLAST_CHECK(with_elements(slices[i].tensor, selections_[i],
                                  [&](const auto& elements) { return write_json_array(elements, out, flush_); }));
      out += '}';
    }
    out += "]}\n";
    return {};
  }

  // Bytes for a pipe.
  class ConsoleSink final : public ByteSink {
   public:
    explicit ConsoleSink(Console& console) : console_(console) {}
    Status write(ByteSpan bytes) override {
      console_.out() += as_text(bytes);
      written_ += bytes.size();
      return flush_if_large(console_);
    }
    Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "a pipe has no past"); }
    uint64_t position() const override { return written_; }

   private:
    Console& console_;
    uint64_t written_ = 0;
  };

  Status refuse_terminal() const {
    if (console_.output().interactive) {
      return make_error(ErrorCode::kInvalidArgument,
                        "refusing to print binary data on the terminal: redirect it to a file or a pipe");
    }
    return {};
  }

  Status write_bytes(const TensorSlice& slice, const Selection& selection) {
    BALLAST_CHECK(refuse_terminal());
    ConsoleSink sink(console_);
    return stream_slice(archive_, slice.tensor, selection, sink);
  }

  Status write_npy(const TensorSlice& slice, const Selection& selection) {
    BALLAST_CHECK(refuse_terminal());
    TensorInfo tensor = as_shown(archive_.tensors()[slice.tensor]);
    tensor.shape = selection.shape;
    BALLAST_TRY(const NpyLayout layout, npy_layout(tensor, {}));
    console_.out() += layout.header;
    ConsoleSink sink(console_);
    return stream_slice_values(archive_, slice.tensor, selection, sink);
  }

  const ShowFlags& flags_;
  const Archive& archive_;
  Console& console_;
  std::vector<Selection> selections_;
  TextSink flush_ = [this](std::string&) { return flush_if_large(console_); };
};

Status show(const ShowFlags& flags, Console& console) {
  BALLAST_TRY(const Archive archive, open_input(flags.path));
  BALLAST_TRY(const std::vector<TensorSlice> slices, find_slices(archive, flags));
  return Show(flags, archive, console).run(slices);
}

constexpr const char* kShowFooter =
    "A slice follows the name as in NumPy: indexes (negative ones count from the end), ranges a:b and a:b:step, and\n"
    "\"...\". Only the bytes of the slice are read. Quote it to protect it from the shell. Tensors with more than\n"
    "1,000 values are abbreviated to the first and last three of each axis; --all prints everything.\n"
    "\n"
    "Examples:\n"
    "  ballast show model.safetensors 'blocks.0.weight[0:4, :]'\n"
    "  ballast show model.safetensors 'head[-1]' --precision 3\n"
    "  ballast show model.npz --only 'bias$'\n"
    "  ballast show model.bpk 'embedding[0]' --json | jq '.tensors[0].values'\n"
    "  ballast show model.bpk 'embedding[:100]' --format npy > rows.npy\n";

}  // namespace

RunCommand add_show(CLI::App& program, Console& console) {
  Command command(program, "show", "Print the values of a tensor or a slice");
  auto flags = std::make_shared<ShowFlags>();
  command.path("PATH", flags->path, "File to read").or_model();
  command.optional_texts("NAME", flags->names, "Tensors by name or id, each with an optional slice: 'weight[0:4, :]'");
  command.patterns("--only", flags->only, "Show tensors whose name matches; may be repeated");
  command.flag("--all", flags->all, "Print every value");
  command.count("--precision", "N", flags->precision, "Print at most N digits after the point (8)", 0, 20);
  const Flag format = command.choice(
      "--format", "FORMAT", flags->format,
      {{"text", ShowFormat::kText}, {"csv", ShowFormat::kCsv}, {"npy", ShowFormat::kNpy}, {"raw", ShowFormat::kRaw}},
      "Print text, csv, npy or raw (little-endian bytes)");
  command.json(flags->json).excludes(format);
  command.footer(kShowFooter);
  return [flags, &console] {
    const Status status = show(*flags, console);
    return status || console.reader_gone() ? kExitYes : console.fail(status.error(), flags->json);
  };
}

}  // namespace ballast::cli
