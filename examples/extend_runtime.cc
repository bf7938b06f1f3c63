// extend_runtime MODEL.gptrs: a model kind, a layer and an implementation of a functional that Ballast does not have,
// brought by a program that uses it as a library. MODEL is any checkpoint of kind gpt.
#include <ballast/device/host_access.h>
#include <ballast/device/host_values.h>
#include <ballast/models/kind_config.h>
#include <ballast/models/model.h>
#include <ballast/ops/activation.h>
#include <ballast/runtime/load_model.h>

#include <cmath>
#include <cstdio>

using namespace ballast;

// ---------------------------------------------------------------- a layer: parameters, and what it computes with them

struct Head {
  Param gamma, beta, weight;

  static Result<Head> take(ParamLoader& params, uint64_t width) {
    Head head;
    BALLAST_TRY(head.gamma, params.get("final_ln.gamma", {width}));
    BALLAST_TRY(head.beta, params.get("final_ln.beta", {width}));
    BALLAST_TRY(head.weight, params.get_rank("lm_head", 2));
    return head;
  }
  Result<Tensor> run(Context& context, const Tensor& x) const {
    const Context::Scope scope(context, "head");  // what `trace` calls it
    BALLAST_TRY(const Tensor normal, ops::layer_norm(context.at("norm"), x, gamma, beta, 1e-5F));
    return ops::linear(context.at("logits"), normal, weight);
  }
};

// ---------------------------------------------------------------- a model kind: what follows a token, past forgotten

class Bigrams final : public Model {
 public:
  Bigrams(Param table, Head head) : table_(std::move(table)), head_(std::move(head)) {}

  static Result<std::unique_ptr<Model>> build(const KindConfig& /*config*/, ParamLoader& params) {
    BALLAST_TRY(Param table, params.get_rank("tok_embeddings.weight", 2));
    BALLAST_TRY(Head head, Head::take(params, table.shape()[1]));
    return std::unique_ptr<Model>(std::make_unique<Bigrams>(std::move(table), std::move(head)));
  }
  std::string_view kind() const override { return "bigrams"; }
  Result<Tensor> forward(Context& context, const ModelInput& input) const override {
    const auto* tokens = std::get_if<TokenInput>(&input);
    if (tokens == nullptr) return make_error(ErrorCode::kInvalidArgument, "a bigrams model takes tokens");
    BALLAST_TRY(const Tensor rows, ops::embedding_lookup(context.at("tokens"), table_, tokens->ids));
    return head_.run(context, rows);
  }

 private:
  Param table_;
  Head head_;
};

// ---------------------------------------------------------------- another implementation of a functional

Status add_quick_gelu(Registry& registry) {
  Implementation<ops::GeluArgs> quick;
  quick.name = "gelu_quick";
  quick.supports = [](const Context&, const ops::GeluArgs& args) { return args.x.dtype() == DType::kF32; };
  quick.run = [](Context& context, const ops::GeluArgs& args) -> Result<Tensor> {
    BALLAST_TRY(Tensor out, context.workspace().make(args.x.dims()));
    const float* x = host_data<const float>(args.x);
    float* y = host_data<float>(out);
    for (uint64_t i = 0; i < out.count(); ++i) y[i] = x[i] / (1 + std::exp(-1.702F * x[i]));
    return out;
  };
  return registry.add(std::move(quick));
}

// ---------------------------------------------------------------- using them

Status show(const std::string& path, const char* title, const LoadOptions& options) {
  BALLAST_TRY(const auto model, load_model(path, options));
  BALLAST_TRY(const Tensor logits, model->forward(TokenInput{{1, 2}}));
  BALLAST_TRY(const auto values, HostValues<float>::of(logits));
  // Capabilities, never kinds, decide what a program does with a model.
  std::printf("%-12s kind %.*s, output %s, first logit %.6f, %s\n", title, static_cast<int>(model->kind().size()),
              model->kind().data(), logits.dims().to_string().c_str(), static_cast<double>(values[0]),
              model->as_causal_lm() != nullptr ? "can write" : "cannot write");
  return {};
}

Status run(const std::string& path) {
  BALLAST_CHECK(show(path, "as it is", {}));
  LoadOptions quick;
  quick.extend = add_quick_gelu;
  quick.overrides = {{"gelu", "force=gelu_quick"}};
  BALLAST_CHECK(show(path, "quick gelu", quick));
  const ModelKind kinds[] = {{"bigrams", "what follows a token, whatever came before", Bigrams::build}};
  LoadOptions bigrams;
  bigrams.more_kinds = kinds;
  bigrams.config_text = R"({"kind": "bigrams"})";  // a checkpoint of this kind would say so itself
  return show(path, "other kind", bigrams);
}

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: extend_runtime MODEL.gptrs\n"), 2;
  const Status status = run(arguments[1]);
  return status ? 0 : (std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1);
}
