#include <ballast/runtime/load_model.h>
#include <ballast/text/generator.h>
#include <ballast/text/load_tokenizer.h>

#include <cstdio>

// generate MODEL PROMPT: goes on from a text, with the tokenizer that stands beside the model.
ballast::Status generate(const std::string& path, const std::string& prompt) {
  BALLAST_TRY(const auto model, ballast::load_model(path));  // reads the header; weights come when they are touched
  const ballast::CausalLm* writer = model->as_causal_lm();
  const auto tokenizer_path = ballast::find_tokenizer_beside(path);
  if (writer == nullptr || !tokenizer_path)
    return ballast::make_error(ballast::ErrorCode::kUnsupported, path + ": no text model with a tokenizer beside it");
  BALLAST_TRY(const auto tokenizer, ballast::load_tokenizer(*tokenizer_path));
  ballast::GenerateOptions options;
  options.max_tokens = 40;
  options.sampling = {.temperature = 0.7, .top_k = 40, .seed = 7};
  BALLAST_TRY(auto ids, tokenizer.encode(prompt));
  BALLAST_TRY(auto generator, ballast::Generator::start(*writer, model->context(), std::move(ids), options));
  ballast::StreamDecoder decoder(tokenizer);  // whole characters only
  for (;;) {
    BALLAST_TRY(const auto token, generator.next());
    if (!token) break;
    BALLAST_TRY(const std::string text, decoder.next(token->id));
    std::fputs(text.c_str(), stdout);
  }
  std::puts(decoder.finish().c_str());
  return {};
}

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;
  const auto status = generate(arguments[1], arguments[2]);
  return status ? 0 : (std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1);
}
