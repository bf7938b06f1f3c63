// What real clients send is read, and either answered or refused for the one thing that is not there.
#include <gtest/gtest.h>

#include <map>

#include "ballast/base/json_object.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// Part of the message of a request that is refused, by the case. All others are answered with 200.
const std::map<std::string, std::string, std::less<>>& refused_cases() {
  static const std::map<std::string, std::string, std::less<>> cases = {
      {"chat_json_schema_complex", "minLength"},
      {"chat_roles_parts", "messages[1].content[1].type"},
      {"completions_suffix_bestof", "best_of"},
      {"completions_token_lists", "vocabulary"},
      {"completions_tokens", "vocabulary"},
      {"embeddings_flat_tokens", "token ids"},
      {"embeddings_tokens_dimensions", "token ids"},
      {"langchain_embed_default_token_ids", "token ids"},
      {"ollama_chat_image", "text only"},
      {"ollama_embed", "writes texts"},
      {"ollama_embeddings_legacy", "/api/embeddings"},
      {"ollama_error_404", "does not exist"},
      {"ollama_pull", "/api/pull"},
      {"responses_input_tokens", "/v1/responses/input_tokens"},
      {"responses_items_images_tools", "input"},
      {"responses_previous_id_store", "previous_response_id"},
  };
  return cases;
}

TEST(RecordedRequests, AreAnsweredOrRefusedForOneReason) {
  serve::ServiceOptions options = rig_options();
  options.most_tokens = 3;
  options.models[0].aliases.push_back("org/model:Q4_K_M");
  ServiceRig rig(options);
  const std::string list = read_text_file(test_file_path("openai/requests.json"));
  const auto recorded = json_elements(list, "requests.json");
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_GT(recorded->size(), 70U);
  for (const std::string_view request : *recorded) {
    const std::string name = json_string(json_at(request, "case"));
    const std::string path = json_string(json_at(request, "path"));
    SCOPED_TRACE(name + " " + path);
    const std::string body = json_at(request, "body");
    const auto answer =
        rig.start(json_string(json_at(request, "method")), path, body == "null" ? "" : body).sink->wait();
    const auto refused = refused_cases().find(name);
    if (refused == refused_cases().end()) {
      EXPECT_EQ(answer.status, 200) << answer.body;
      continue;
    }
    EXPECT_GE(answer.status, 400) << answer.body;
    EXPECT_LT(answer.status, 500) << answer.body;
    EXPECT_NE(answer.body.find(refused->second), std::string::npos) << answer.body;
  }
}

}  // namespace
}  // namespace ballast::testing
