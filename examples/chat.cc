#include <ballast/runtime/text_model.h>

#include <cstdio>

// chat MODEL MESSAGE...: says the messages one after the other and prints the answers. MODEL is a GGUF file, a folder
// of Hugging Face or anything else that has a tokenizer and a chat template.
ballast::Status chat(const std::string& path, std::span<char* const> messages) {
  BALLAST_TRY(const auto model, ballast::TextModel::open(path));  // weights are read when they are touched
  BALLAST_TRY(auto conversation, model.start_chat());
  const auto show = [](std::string_view piece) { return std::fputs(std::string(piece).c_str(), stdout) >= 0; };
  for (const char* message : messages) {
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
