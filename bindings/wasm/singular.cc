// Singular values of a matrix, or of two dimensions of a tensor that has more.
#include <fmt/format.h>

#include "ballast/archive/slice.h"
#include "ballast/tensor/elements.h"
#include "ballast/tensor/singular_values.h"
#include "bindings/wasm/session.h"

namespace ballast::wasm {

namespace {

// The time goes with their product: at both limits it is about a minute.
constexpr uint64_t kMostOfSmallerSide = 2048;
constexpr uint64_t kMostOfMatrix = uint64_t{1} << 24;

Status check_matrix(const TensorInfo& info, const Selection& selection) {
  if (selection.shape.rank() != 2 || component_count(info.dtype) != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": only a matrix of real numbers has singular values; choose two of its "
                                  "dimensions, and a place along each of the others",
                                  info.name));
  }
  const uint64_t smaller = std::min(selection.shape[0], selection.shape[1]);
  if (smaller > kMostOfSmallerSide || selection.elements > kMostOfMatrix) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("tensor \"{}\": {} x {} is too large a matrix: its smaller side may have {}, and both "
                    "together {} elements",
                    info.name, selection.shape[0], selection.shape[1], kMostOfSmallerSide, kMostOfMatrix));
  }
  return {};
}

class SingularWork final : public Work {
 public:
  SingularWork(Session& session, ChosenTensor chosen, Selection selection)
      : session_(session), chosen_(chosen), selection_(std::move(selection)) {
    total = selection_.elements;
  }

  Result<bool> step(Answer& answer) override {
    if (!values_) {
      BALLAST_TRY(std::optional<std::vector<double>> matrix, read());
      if (!matrix) return false;
      BALLAST_TRY(SingularValues values,
                  SingularValues::begin(std::move(*matrix), static_cast<size_t>(selection_.shape[0]),
                                        static_cast<size_t>(selection_.shape[1])));
      values_.emplace(std::move(values));
      return false;
    }
    constexpr uint64_t kElementsPerStep = uint64_t{1} << 25;  // some tens of milliseconds
    for (uint64_t spent = 0; spent < kElementsPerStep && values_->done() < values_->total();) {
      spent += values_->work_of_step();
      values_->step();
    }
    done = values_->total() == 0 ? total : total * values_->done() / values_->total();
    if (values_->done() < values_->total()) return false;
    answer.json.key("result").begin_object().key("rows").number(selection_.shape[0]).key("columns");
    answer.json.number(selection_.shape[1]).key("values").begin_array();
    for (const double value : values_->finish()) answer.json.real(value);
    answer.json.end_array().end_object();
    return true;
  }

 private:
  // Nothing where bytes are missing.
  Result<std::optional<std::vector<double>>> read() {
    if (chosen_.archive->extent(chosen_.index).is_canonical()) {
      session_.missing().guesses = true;
    } else {
      BALLAST_TRY(const bool there, session_.has_stored(*chosen_.archive, chosen_.index));
      if (!there) return std::optional<std::vector<double>>();
    }
    MemorySink sink;
    BALLAST_CHECK(stream_slice_values(*chosen_.archive, chosen_.index, selection_, sink));
    if (!session_.missing().empty()) return std::optional<std::vector<double>>();
    const DType stored = chosen_.info().dtype;
    std::vector<double> values(static_cast<size_t>(selection_.elements));
    to_doubles(is_block(stored) ? DType::kF32 : stored, sink.take(), 0, values);
    return std::optional(std::move(values));
  }

  Session& session_;
  ChosenTensor chosen_;
  Selection selection_;
  std::optional<SingularValues> values_;
};

}  // namespace

// "slice": as for `values`, of two dimensions.
Result<std::unique_ptr<Work>> start_singular(Session& session, const JsonObject& request) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  BALLAST_TRY(const std::string text, request.text("slice"));
  BALLAST_TRY(const Slice slice, parse_slice(text));
  const TensorInfo& info = chosen.info();
  if (!is_arithmetic(info.dtype)) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("tensor \"{}\" is {}, a type without singular values", info.name, info.type_name()));
  }
  BALLAST_TRY(Selection selection, select(info, slice));
  BALLAST_CHECK(check_matrix(info, selection));
  return std::unique_ptr<Work>(std::make_unique<SingularWork>(session, chosen, std::move(selection)));
}

}  // namespace ballast::wasm
