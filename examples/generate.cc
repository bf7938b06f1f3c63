#include <ballast/runtime/text_model.h>

#include <cstdio>

// generate MODEL PROMPT: continues a text with the model's own tokenizer.
ballast::Status generate(const std::string& path, const std::string& prompt) {
  BALLAST_TRY(const auto model, ballast::TextModel::open(path));  // weights are read when they are touched
  BALLAST_TRY(const ballast::Tokenizer* tokenizer, model.tokenizer());
  ballast::GenerateOptions options = model.generate_options();  // sampling and ends as the model's files say
  options.max_tokens = 40;
  options.sampling.seed = 7;
  BALLAST_TRY(auto generator, model.start(prompt, options));
  ballast::StreamDecoder decoder(*tokenizer);  // whole characters only
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
