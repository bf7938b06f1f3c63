// What the C tests share. Each is a program of its own: it ends at the first thing that does not hold.
#ifndef BALLAST_TESTS_C_CHECK_H_
#define BALLAST_TESTS_C_CHECK_H_

#include <ballast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check_that((condition), #condition, __FILE__, __LINE__)
// The call succeeds.
#define OK(call) check_ok((call), #call, __FILE__, __LINE__)
// It fails with this kind, and its message has this part.
#define FAILS(call, kind, part) check_fails((call), (kind), (part), #call, __FILE__, __LINE__)

static inline void check_that(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  exit(1);
}

static inline void check_ok(ballast_error* error, const char* what, const char* file, int line) {
  if (error == NULL) return;
  fprintf(stderr, "%s:%d: %s\n  %s: %s\n", file, line, what, ballast_error_kind_name(error),
          ballast_error_message(error).data);
  exit(1);
}

static inline void check_fails(ballast_error* error, ballast_kind kind, const char* part, const char* what,
                               const char* file, int line) {
  check_that(error != NULL, what, file, line);
  if (ballast_error_kind(error) != kind || strstr(ballast_error_message(error).data, part) == NULL) {
    fprintf(stderr, "%s:%d: %s\n  %s: %s\n  expected kind %d and a message with \"%s\"\n", file, line, what,
            ballast_error_kind_name(error), ballast_error_message(error).data, (int)kind, part);
    exit(1);
  }
  ballast_error_free(error);
}

static inline bool is_text(ballast_text text, const char* expected) {
  return text.data != NULL && text.size == strlen(expected) && strcmp(text.data, expected) == 0;
}

// A path below a folder, in one of a few buffers that are used in turn.
static inline const char* path_in(const char* folder, const char* name) {
  static char paths[8][4096];
  static unsigned next = 0;
  char* path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline bool file_exists(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file != NULL) fclose(file);
  return file != NULL;
}

// Everything that a test opened, it closed.
static inline int end_of_test(const char* name) {
  CHECK(ballast_open_handles() == 0);
  printf("%s: all hold\n", name);
  return 0;
}

#endif  // BALLAST_TESTS_C_CHECK_H_
