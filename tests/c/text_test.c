// text_test MODEL TEMPLATE: generating, the engine and chats from C. MODEL has a tokenizer and no template.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

static const char* model_path;
static char template_text[4096];

struct written {
  char text[4096];
  size_t size;
  size_t calls;
  size_t stop_at;  // a call
};

static bool append(void* user, const char* text, size_t size) {
  struct written* written = user;
  CHECK(size > 0 && strlen(text) == size && written->size + size < sizeof written->text);
  memcpy(written->text + written->size, text, size + 1);
  written->size += size;
  return ++written->calls != written->stop_at;
}

static ballast_text_model* open_model(void) {
  ballast_model_options options = {.struct_size = sizeof options};
  options.threads = 1;
  options.chat_template = template_text;
  ballast_text_model* model = NULL;
  OK(ballast_text_model_open(model_path, &options, &model));
  return model;
}

static ballast_generate_options short_text(const ballast_text_model* model, uint64_t max_tokens) {
  ballast_generate_options options = {.struct_size = sizeof options};
  OK(ballast_text_model_defaults(model, &options));
  options.max_tokens = max_tokens;
  options.temperature = 0;
  return options;
}

// ---------------------------------------------------------------- generating

static void a_prompt_is_continued(void) {
  ballast_text_model* model = open_model();
  CHECK(is_text(ballast_text_model_kind(model), "gpt"));
  CHECK(ballast_text_model_context_length(model) == 256);
  ballast_generate_options options = short_text(model, 12);
  struct written first = {.size = 0}, second = {.size = 0};
  ballast_generation generation = {.struct_size = sizeof generation};
  OK(ballast_generate(model, "It is a truth", BALLAST_NUL, &options, append, &first, &generation));
  CHECK(generation.finish == BALLAST_FINISH_MAX_TOKENS && generation.written_tokens == 12);
  CHECK(generation.prompt_tokens > 0 && first.size > 0 && first.calls > 1);
  OK(ballast_generate(model, "It is a truth", BALLAST_NUL, &options, append, &second, NULL));
  CHECK(strcmp(first.text, second.text) == 0);
  OK(ballast_generate(model, "", 0, &options, NULL, NULL, NULL));  // the beginning of a text

  // What the callback refuses, and what a stop text ends.
  struct written stopped = {.stop_at = 2};
  OK(ballast_generate(model, "It is a truth", BALLAST_NUL, &options, append, &stopped, &generation));
  CHECK(generation.finish == BALLAST_FINISH_CANCELLED && stopped.calls == 2);
  CHECK(strncmp(first.text, stopped.text, stopped.size) == 0);
  char stop[3] = {first.text[4], first.text[5], 0};
  const char* const stops[] = {stop};
  options.stops = stops;
  options.stop_count = 1;
  struct written ended = {.size = 0};
  OK(ballast_generate(model, "It is a truth", BALLAST_NUL, &options, append, &ended, &generation));
  CHECK(generation.finish == BALLAST_FINISH_STOP_TEXT);
  CHECK(ended.size == (size_t)(strstr(first.text, stop) - first.text));

  options.temperature = -1;
  FAILS(ballast_generate(model, "a", 1, &options, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "temperature");
  FAILS(ballast_generate(model, NULL, 3, NULL, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "the prompt");
  ballast_text_model_close(model);
}

static void a_switch_ends_a_text(void) {
  ballast_text_model* model = open_model();
  ballast_cancel* cancel = NULL;
  OK(ballast_cancel_create(&cancel));
  ballast_cancel_request(cancel);
  ballast_generate_options options = short_text(model, 12);
  options.cancel = cancel;
  FAILS(ballast_generate(model, "It is", BALLAST_NUL, &options, NULL, NULL, NULL), BALLAST_CANCELLED, "");
  ballast_cancel_close(cancel);
  ballast_text_model_close(model);
}

// ---------------------------------------------------------------- the engine

struct request {
  struct written written;
  ballast_finish finish;
  size_t tokens;
  ballast_engine* submit_another;  // to this engine, from the callback
  struct request* another;
  ballast_engine* close_at_first;
};

static void on_event(void* user, const ballast_engine_event* event) {
  struct request* request = user;
  CHECK(event->request != 0 && request->finish == BALLAST_FINISH_NONE);
  if (event->text.size > 0) append(&request->written, event->text.data, event->text.size);
  if (event->finish == BALLAST_FINISH_NONE) ++request->tokens;
  request->finish = event->finish;
  CHECK((event->finish == BALLAST_FINISH_FAILED) == (event->error != NULL));
  if (request->submit_another != NULL) {
    OK(ballast_engine_submit(request->submit_another, "She", 3, NULL, on_event, request->another, NULL));
    FAILS(ballast_engine_step(request->submit_another, NULL), BALLAST_INVALID_ARGUMENT, "a callback called");
    request->submit_another = NULL;
  }
  if (request->close_at_first != NULL) ballast_engine_close(request->close_at_first);
}

static void several_requests_get_the_texts_that_each_gets_alone(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  ballast_text_model_close(model);  // the engine keeps it
  model = open_model();
  const char* const prompts[4] = {"It is a truth", "It is a", "Emma", "He had"};
  struct request requests[4];
  memset(requests, 0, sizeof requests);
  for (size_t i = 0; i < 4; ++i) {
    ballast_generate_options options = short_text(model, 6 + i);
    options.temperature = 1;
    options.seed = i;
    uint64_t id = 0;
    OK(ballast_engine_submit(engine, prompts[i], BALLAST_NUL, &options, on_event, &requests[i], &id));
    CHECK(id != 0);
  }
  OK(ballast_engine_run(engine));
  for (size_t i = 0; i < 4; ++i) {
    ballast_generate_options options = short_text(model, 6 + i);
    options.temperature = 1;
    options.seed = i;
    struct written alone = {.size = 0};
    OK(ballast_generate(model, prompts[i], BALLAST_NUL, &options, append, &alone, NULL));
    CHECK(requests[i].finish == BALLAST_FINISH_MAX_TOKENS && requests[i].tokens == 6 + i);
    CHECK(strcmp(requests[i].written.text, alone.text) == 0);
  }
  ballast_engine_counters counters = {.struct_size = sizeof counters};
  OK(ballast_engine_get_counters(engine, &counters));
  CHECK(counters.finished == 4 && counters.running == 0 && counters.generated_tokens == 6 + 7 + 8 + 9);
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

static void a_request_is_cancelled_and_others_go_on(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  struct request first, second, third;
  memset(&first, 0, sizeof first);
  memset(&second, 0, sizeof second);
  memset(&third, 0, sizeof third);
  second.submit_another = engine;
  second.another = &third;
  ballast_generate_options options = short_text(model, 20);
  uint64_t id = 0;
  OK(ballast_engine_submit(engine, "It is", BALLAST_NUL, &options, on_event, &first, &id));
  OK(ballast_engine_submit(engine, "Emma", BALLAST_NUL, &options, on_event, &second, NULL));
  bool more = false;
  OK(ballast_engine_step(engine, &more));
  CHECK(more);
  OK(ballast_engine_cancel(engine, id));
  OK(ballast_engine_run(engine));
  CHECK(first.finish == BALLAST_FINISH_CANCELLED && first.tokens < 20);
  CHECK(second.finish == BALLAST_FINISH_MAX_TOKENS && second.tokens == 20);
  CHECK(third.finish != BALLAST_FINISH_NONE);
  FAILS(ballast_engine_cancel(engine, id), BALLAST_NOT_FOUND, "");
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

// ---------------------------------------------------------------- structured output

static const char* ship_schema =
    "{\"type\":\"object\",\"properties\":{\"masts\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":3}},"
    "\"required\":[\"masts\"]}";

static void constraints_say_which_texts_are_complete(void) {
  ballast_constraint* constraint = NULL;
  OK(ballast_constraint_of_json_object(&constraint));
  CHECK(ballast_constraint_accepts(constraint, "{\"a\": [1]}", BALLAST_NUL));
  CHECK(!ballast_constraint_accepts(constraint, "[1]", BALLAST_NUL));
  CHECK(!ballast_constraint_accepts(constraint, NULL, 4));
  ballast_constraint_close(constraint);
  CHECK(!ballast_constraint_accepts(constraint, "{}", 2));
  OK(ballast_constraint_of_schema(ship_schema, BALLAST_NUL, &constraint));
  CHECK(ballast_constraint_accepts(constraint, "{\"masts\": 3}", BALLAST_NUL));
  CHECK(!ballast_constraint_accepts(constraint, "{\"masts\": 4}", BALLAST_NUL));
  ballast_constraint_close(constraint);
  OK(ballast_constraint_of_grammar("root ::= \"a\"+ and more", 13, &constraint));
  CHECK(ballast_constraint_accepts(constraint, "aaa", 3) && !ballast_constraint_accepts(constraint, "", 0));
  ballast_constraint_close(constraint);
  FAILS(ballast_constraint_of_schema("{\"not\":{}}", BALLAST_NUL, &constraint), BALLAST_UNSUPPORTED, "/not");
  FAILS(ballast_constraint_of_grammar("root ::= x", BALLAST_NUL, &constraint), BALLAST_INVALID_ARGUMENT, "x");
  FAILS(ballast_constraint_of_regex("(", 1, &constraint), BALLAST_INVALID_ARGUMENT, "not closed");
  FAILS(ballast_constraint_of_regex(NULL, 1, &constraint), BALLAST_INVALID_ARGUMENT, "the regular expression");
  FAILS(ballast_constraint_of_regex("a", 1, NULL), BALLAST_INVALID_ARGUMENT, "result must not be NULL");
  CHECK(constraint == NULL);
}

static void every_text_follows_its_constraint(void) {
  ballast_text_model* model = open_model();
  ballast_generate_options options = short_text(model, 60);
  options.temperature = 1;
  ballast_constraint *ship = NULL, *answer = NULL;
  OK(ballast_constraint_of_schema(ship_schema, BALLAST_NUL, &ship));
  OK(ballast_constraint_of_regex("yes|no", BALLAST_NUL, &answer));
  struct written text = {.size = 0};
  ballast_generation generation = {.struct_size = sizeof generation};
  options.constraint = ship;
  OK(ballast_generate(model, "It is", BALLAST_NUL, &options, append, &text, &generation));
  CHECK(generation.finish == BALLAST_FINISH_STOP_TOKEN && ballast_constraint_accepts(ship, text.text, text.size));

  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  struct request requests[2];
  memset(requests, 0, sizeof requests);
  OK(ballast_engine_submit(engine, "It is", BALLAST_NUL, &options, on_event, &requests[0], NULL));
  options.constraint = answer;
  OK(ballast_engine_submit(engine, "Is it?", BALLAST_NUL, &options, on_event, &requests[1], NULL));
  ballast_constraint_close(ship);  // the request keeps it
  OK(ballast_engine_run(engine));
  CHECK(requests[0].finish == BALLAST_FINISH_STOP_TOKEN && strcmp(requests[0].written.text, text.text) == 0);
  CHECK(requests[1].finish == BALLAST_FINISH_STOP_TOKEN);
  CHECK(ballast_constraint_accepts(answer, requests[1].written.text, requests[1].written.size));

  ballast_chat* chat = NULL;
  OK(ballast_chat_create(model, &options, &chat));
  for (int i = 0; i < 2; ++i) {
    ballast_reply reply = {.struct_size = sizeof reply};
    OK(ballast_chat_say(chat, "Is it?", BALLAST_NUL, NULL, NULL, &reply));
    CHECK(ballast_constraint_accepts(answer, reply.text.data, reply.text.size));
  }
  ballast_chat_close(chat);
  options.constraint = ship;
  FAILS(ballast_generate(model, "a", 1, &options, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "no open constraint");
  ballast_constraint_close(answer);
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

// ---------------------------------------------------------------- several threads

struct caller {
  ballast_engine* engine;
  const char* prompt;
  ballast_generate_options options;
  struct request request;
  pthread_t thread;
  bool is_beside_runner;
  bool told_elsewhere;
};

static void on_own_thread(void* user, const ballast_engine_event* event) {
  struct caller* caller = user;
  if (!pthread_equal(pthread_self(), caller->thread)) caller->told_elsewhere = true;
  FAILS(ballast_engine_wait(caller->engine, event->request), BALLAST_INVALID_ARGUMENT, "a callback called");
  on_event(&caller->request, event);
}

static void* submit_and_wait(void* user) {
  struct caller* caller = user;
  caller->thread = pthread_self();
  uint64_t id = 0;
  OK(ballast_engine_submit(caller->engine, caller->prompt, BALLAST_NUL, &caller->options, on_own_thread, caller, &id));
  ballast_error* error = ballast_engine_wait(caller->engine, id);
  // Whoever runs may have told everything before.
  CHECK(error == NULL || (caller->is_beside_runner && ballast_error_kind(error) == BALLAST_NOT_FOUND));
  ballast_error_free(error);
  CHECK(caller->request.finish == BALLAST_FINISH_MAX_TOKENS);
  FAILS(ballast_engine_wait(caller->engine, id), BALLAST_NOT_FOUND, "it is over");
  return NULL;
}

static void* run_engine(void* engine) {
  OK(ballast_engine_run(engine));
  return NULL;
}

// `with_runner`: another thread runs the engine meanwhile, and tells what nobody waits for.
static void threads_wait_for_their_requests(bool with_runner) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  enum { kCallers = 4 };
  static const char* const prompts[kCallers] = {"It is a truth", "It is a", "Emma", "He had"};
  static struct caller callers[kCallers];
  memset(callers, 0, sizeof callers);
  struct request nobody_waits;
  memset(&nobody_waits, 0, sizeof nobody_waits);
  pthread_t threads[kCallers], runner;
  for (size_t i = 0; i < kCallers; ++i) {
    callers[i].engine = engine;
    callers[i].prompt = prompts[i];
    callers[i].options = short_text(model, 10 + i);
    callers[i].is_beside_runner = with_runner;
  }
  if (with_runner) {
    const ballast_generate_options options = short_text(model, 40);
    OK(ballast_engine_submit(engine, "She", 3, &options, on_event, &nobody_waits, NULL));
    CHECK(pthread_create(&runner, NULL, run_engine, engine) == 0);
  }
  for (size_t i = 0; i < kCallers; ++i) CHECK(pthread_create(&threads[i], NULL, submit_and_wait, &callers[i]) == 0);
  for (size_t i = 0; i < kCallers; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  if (with_runner) {
    CHECK(pthread_join(runner, NULL) == 0);
    CHECK(nobody_waits.finish == BALLAST_FINISH_MAX_TOKENS && nobody_waits.tokens == 40);
  }
  for (size_t i = 0; i < kCallers; ++i) {
    struct written alone = {.size = 0};
    OK(ballast_generate(model, prompts[i], BALLAST_NUL, &callers[i].options, append, &alone, NULL));
    CHECK(callers[i].request.tokens == 10 + i && strcmp(callers[i].request.written.text, alone.text) == 0);
    CHECK(with_runner || !callers[i].told_elsewhere);
  }
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

static void a_waiting_thread_learns_that_the_engine_was_closed(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  struct request request;
  memset(&request, 0, sizeof request);
  request.close_at_first = engine;
  uint64_t id = 0;
  OK(ballast_engine_submit(engine, "It is", BALLAST_NUL, NULL, on_event, &request, &id));
  FAILS(ballast_engine_wait(engine, id + 1), BALLAST_NOT_FOUND, "no request");
  FAILS(ballast_engine_wait(engine, id), BALLAST_CANCELLED, "closed");
  CHECK(request.tokens == 1);
  ballast_text_model_close(model);
}

static void a_stop_text_ends_a_request(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  struct request request;
  memset(&request, 0, sizeof request);
  const char* const stops[] = {" "};
  ballast_generate_options options = short_text(model, 50);
  options.stops = stops;
  options.stop_count = 1;
  OK(ballast_engine_submit(engine, "It is a tr", BALLAST_NUL, &options, on_event, &request, NULL));
  OK(ballast_engine_run(engine));
  CHECK(request.finish == BALLAST_FINISH_STOP_TEXT && strchr(request.written.text, ' ') == NULL);
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

static void an_engine_that_a_callback_closes_ends(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  struct request request;
  memset(&request, 0, sizeof request);
  request.close_at_first = engine;
  OK(ballast_engine_submit(engine, "It is", BALLAST_NUL, NULL, on_event, &request, NULL));
  FAILS(ballast_engine_run(engine), BALLAST_CANCELLED, "closed");
  CHECK(request.tokens == 1);
  FAILS(ballast_engine_run(engine), BALLAST_INVALID_ARGUMENT, "no open engine");
  ballast_text_model_close(model);
}

static void what_an_engine_cannot_do_is_refused(void) {
  ballast_text_model* model = open_model();
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  ballast_generate_options options = short_text(model, 2);
  options.half_cache = true;
  FAILS(ballast_engine_submit(engine, "a", 1, &options, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "half_cache");
  options.half_cache = false;
  OK(ballast_cancel_create(&options.cancel));
  FAILS(ballast_engine_submit(engine, "a", 1, &options, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "engine_cancel");
  ballast_cancel_close(options.cancel);
  ballast_engine_close(engine);
  ballast_text_model_close(model);
}

// ---------------------------------------------------------------- chat

static void a_chat_remembers(void) {
  ballast_text_model* model = open_model();
  ballast_generate_options options = short_text(model, 8);
  ballast_chat* chat = NULL;
  OK(ballast_chat_create(model, &options, &chat));
  ballast_text_model_close(model);  // the chat keeps it
  OK(ballast_chat_set_system(chat, "Be brief.", BALLAST_NUL));
  struct written shown = {.size = 0};
  ballast_reply reply = {.struct_size = sizeof reply};
  OK(ballast_chat_say(chat, "Who is Emma?", BALLAST_NUL, append, &shown, &reply));
  CHECK(reply.finish != BALLAST_FINISH_NONE && reply.written_tokens > 0);
  CHECK(shown.size > 0 && strstr(reply.text.data, shown.text) != NULL);
  OK(ballast_chat_say(chat, "And now?", BALLAST_NUL, NULL, NULL, &reply));
  CHECK(reply.reused_tokens > 0 && reply.reused_tokens < reply.prompt_tokens);

  ballast_buffer* messages = NULL;
  OK(ballast_chat_messages(chat, &messages));
  CHECK(strstr(ballast_buffer_data(messages), "Who is Emma?") != NULL);
  CHECK(strstr(ballast_buffer_data(messages), "Be brief.") != NULL);
  OK(ballast_chat_set_messages(chat, ballast_buffer_data(messages), ballast_buffer_size(messages)));
  ballast_buffer_close(messages);
  FAILS(ballast_chat_set_messages(chat, "[1]", 3), BALLAST_CORRUPT, "messages");
  ballast_chat_close(chat);
}

static void a_model_without_a_template_does_not_chat(void) {
  ballast_text_model* model = NULL;
  OK(ballast_text_model_open(model_path, NULL, &model));
  ballast_chat* chat = NULL;
  FAILS(ballast_chat_create(model, NULL, &chat), BALLAST_NOT_FOUND, "no chat template");
  CHECK(chat == NULL);
  ballast_text_model_close(model);
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  model_path = arguments[1];
  FILE* file = fopen(arguments[2], "rb");
  CHECK(file != NULL && fread(template_text, 1, sizeof template_text - 1, file) > 0);
  fclose(file);
  a_prompt_is_continued();
  a_switch_ends_a_text();
  constraints_say_which_texts_are_complete();
  every_text_follows_its_constraint();
  several_requests_get_the_texts_that_each_gets_alone();
  a_request_is_cancelled_and_others_go_on();
  a_stop_text_ends_a_request();
  an_engine_that_a_callback_closes_ends();
  threads_wait_for_their_requests(false);
  threads_wait_for_their_requests(true);
  a_waiting_thread_learns_that_the_engine_was_closed();
  what_an_engine_cannot_do_is_refused();
  a_chat_remembers();
  a_model_without_a_template_does_not_chat();
  return end_of_test("text");
}
