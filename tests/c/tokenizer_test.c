// tokenizer_test MODEL: texts, their tokens and the way back from C.
#include "check.h"

static const char* model_path;

static ballast_tokenizer* open_tokenizer(void) {
  ballast_text_model* model = NULL;
  OK(ballast_text_model_open(model_path, NULL, &model));
  ballast_tokenizer* tokenizer = NULL;
  OK(ballast_text_model_tokenizer(model, &tokenizer));
  ballast_text_model_close(model);  // the tokenizer lives on
  return tokenizer;
}

static void tokens_of_a_text_are_the_text(void) {
  ballast_tokenizer* tokenizer = open_tokenizer();
  CHECK(ballast_tokenizer_size(tokenizer) > 256);
  const char* text = "It is a truth universally acknowledged";
  ballast_tokens* tokens = NULL;
  OK(ballast_tokenizer_encode(tokenizer, text, BALLAST_NUL, false, false, &tokens));
  CHECK(ballast_tokens_count(tokens) > 5 && ballast_tokens_count(tokens) < strlen(text));
  ballast_buffer* back = NULL;
  OK(ballast_tokenizer_decode(tokenizer, ballast_tokens_data(tokens), ballast_tokens_count(tokens), false, &back));
  CHECK(ballast_buffer_size(back) == strlen(text) && strcmp(ballast_buffer_data(back), text) == 0);
  ballast_buffer_close(back);
  ballast_tokens_close(tokens);
  const uint32_t wrong = UINT32_MAX;
  FAILS(ballast_tokenizer_decode(tokenizer, &wrong, 1, false, &back), BALLAST_INVALID_ARGUMENT, "4294967295");
  uint32_t id = 0;
  FAILS(ballast_tokenizer_find(tokenizer, "no such token", &id), BALLAST_NOT_FOUND, "no such token");
  OK(ballast_tokenizer_find(tokenizer, "a", &id));
  ballast_tokenizer_close(tokenizer);
  FAILS(ballast_tokenizer_open("no such file", &tokenizer), BALLAST_NOT_FOUND, "no such file");
}

static void many_texts_are_encoded_at_once_and_tokens_know_their_place(void) {
  ballast_tokenizer* tokenizer = open_tokenizer();
  const char* const texts[3] = {"It is a truth universally acknowledged", "", "na\xC3\xAFve ships"};
  ballast_encode_options options = {.struct_size = sizeof options, .offsets = true, .threads = 2};
  ballast_tokens* tokens[3] = {NULL, NULL, NULL};
  OK(ballast_tokenizer_encode_batch(tokenizer, texts, NULL, 3, &options, tokens));
  for (size_t i = 0; i < 3; ++i) {
    ballast_tokens* alone = NULL;
    OK(ballast_tokenizer_encode(tokenizer, texts[i], BALLAST_NUL, false, false, &alone));
    const size_t count = ballast_tokens_count(alone);
    CHECK(ballast_tokens_count(tokens[i]) == count && ballast_tokens_offsets(alone) == NULL);
    CHECK(count == 0 || memcmp(ballast_tokens_data(tokens[i]), ballast_tokens_data(alone), count * 4) == 0);
    ballast_tokens_close(alone);
    const ballast_span* spans = ballast_tokens_offsets(tokens[i]);
    size_t end = 0;
    for (size_t k = 0; k < count; ++k) {
      CHECK(spans[k].begin <= spans[k].end && spans[k].end >= end);
      end = spans[k].end;
    }
    CHECK(end == strlen(texts[i]));
    ballast_tokens_close(tokens[i]);
  }
  const size_t sizes[2] = {5, 0};
  OK(ballast_tokenizer_encode_batch(tokenizer, texts, sizes, 2, NULL, tokens));
  CHECK(ballast_tokens_count(tokens[0]) > 0 && ballast_tokens_count(tokens[1]) == 0);
  CHECK(ballast_tokens_offsets(tokens[0]) == NULL);
  ballast_tokens_close(tokens[0]);
  ballast_tokens_close(tokens[1]);
  const char* const missing[2] = {"a", NULL};
  FAILS(ballast_tokenizer_encode_batch(tokenizer, missing, NULL, 2, NULL, tokens), BALLAST_INVALID_ARGUMENT, "NULL");
  CHECK(tokens[0] == NULL && tokens[1] == NULL);
  FAILS(ballast_tokenizer_encode_batch(tokenizer, texts, NULL, 2, NULL, NULL), BALLAST_INVALID_ARGUMENT, "NULL");
  OK(ballast_tokenizer_encode_batch(tokenizer, NULL, NULL, 0, NULL, NULL));
  ballast_tokenizer_close(tokenizer);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  model_path = arguments[1];
  tokens_of_a_text_are_the_text();
  many_texts_are_encoded_at_once_and_tokens_know_their_place();
  return end_of_test("tokenizer");
}
