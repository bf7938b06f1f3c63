#include <ballast/runtime/load_model.h>
#include <ballast/text/chat_setup.h>
#include <ballast/text/load_tokenizer.h>

#include <cstdio>

// chat MODEL MESSAGE...: says the messages one after the other and prints the answers. MODEL is a GGUF file, a folder
// of Hugging Face or anything else that has a tokenizer and a chat template.
ballast::Status chat(const std::string& path, std::span<char* const> messages) {
  BALLAST_TRY(const auto model, ballast::load_model(path));  // reads the header; weights come when they are touched
  const auto tokenizer_path = ballast::find_tokenizer_beside(path);
  if (model->as_causal_lm() == nullptr || !tokenizer_path)
    return ballast::make_error(ballast::ErrorCode::kUnsupported, path + ": no text model with a tokenizer");
  BALLAST_TRY(const auto tokenizer, ballast::load_tokenizer(*tokenizer_path));
  // The chat template, what ends an answer, and the sampling that the model's files ask for.
  BALLAST_TRY(auto setup, ballast::prepare_chat(path, tokenizer, model->stop_tokens()));
  setup.options.generate.max_tokens = 200;
  ballast::Conversation conversation(*model->as_causal_lm(), model->context(), tokenizer,
                                     std::move(setup.chat_template), std::move(setup.options));
  for (const char* message : messages) {
    const auto show = [](std::string_view piece) {
      return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size();
    };
    BALLAST_TRY(const auto reply, conversation.say(message, {}, show));
    std::puts(reply.end == ballast::ReplyEnd::kMaxTokens ? " ..." : "");
  }
  return {};
}

int main(int count, char** arguments) {
  if (count < 3) return std::fprintf(stderr, "usage: chat MODEL MESSAGE...\n"), 2;
  const auto status = chat(arguments[1], {arguments + 2, static_cast<size_t>(count - 2)});
  return status ? 0 : (std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1);
}
