// Calls the C interface from Go; the same verbs, and the same lines, as the program in Rust.
//
//	tensors PATH              one line a tensor: name, dtype, shape, sum of all bytes
//	doctor PATH               what is wrong with a file, and how much of it can be saved
//	generate PATH PROMPT...   what the model writes for each prompt, all at once: 8 likeliest tokens, one line each
//
// The last line is the number of handles that are still open.
package main

/*
#cgo LDFLAGS: -lballast_c
#include <ballast.h>
#include <stdlib.h>

void goOnEvent(uintptr_t number, ballast_engine_event* event);

// C keeps what it is given for the callback, so it must be no pointer of Go's: a number stands for the text.
static void on_event(void* user, const ballast_engine_event* event) {
  goOnEvent((uintptr_t)user, (ballast_engine_event*)event);
}
static ballast_error* submit(ballast_engine* engine, const char* prompt, size_t size,
                             const ballast_generate_options* options, uintptr_t number) {
  return ballast_engine_submit(engine, prompt, size, options, on_event, (void*)number, NULL);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

func textOf(text C.ballast_text) string { return C.GoStringN(text.data, C.int(text.size)) }

func checked(failure *C.ballast_error) error {
	if failure == nil {
		return nil
	}
	defer C.ballast_error_free(failure)
	return errors.New(C.GoString(C.ballast_error_kind_name(failure)) + ": " + textOf(C.ballast_error_message(failure)))
}

func printTensors(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var archive *C.ballast_archive
	if err := checked(C.ballast_archive_open(name, nil, &archive)); err != nil {
		return err
	}
	defer C.ballast_archive_close(archive)
	for index := C.size_t(0); index < C.ballast_archive_tensor_count(archive); index++ {
		if err := printTensor(archive, index); err != nil {
			return err
		}
	}
	return nil
}

func printTensor(archive *C.ballast_archive, index C.size_t) error {
	var info C.ballast_tensor_info
	info.struct_size = C.sizeof_ballast_tensor_info
	if err := checked(C.ballast_archive_tensor_info(archive, index, &info)); err != nil {
		return err
	}
	var tensor *C.ballast_tensor
	if err := checked(C.ballast_archive_view(archive, index, 1, &tensor)); err != nil {
		return err
	}
	defer C.ballast_tensor_close(tensor)
	sum := uint64(0)
	if size := int(C.ballast_tensor_size(tensor)); size > 0 {
		for _, value := range unsafe.Slice((*byte)(C.ballast_tensor_data(tensor)), size) {
			sum += uint64(value)
		}
	}
	dims := []string{}
	if info.rank > 0 {
		for _, dim := range unsafe.Slice(info.dims, int(info.rank)) {
			dims = append(dims, strconv.FormatUint(uint64(dim), 10))
		}
	}
	fmt.Printf("%s %s [%s] %d\n", textOf(info.name), C.GoString(info.dtype), strings.Join(dims, ", "), sum)
	return nil
}

func printDiagnosis(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var diagnosis *C.ballast_diagnosis
	if err := checked(C.ballast_doctor(name, nil, &diagnosis)); err != nil {
		return err
	}
	defer C.ballast_diagnosis_close(diagnosis)
	var info C.ballast_diagnosis_info
	info.struct_size = C.sizeof_ballast_diagnosis_info
	if err := checked(C.ballast_diagnosis_get(diagnosis, &info)); err != nil {
		return err
	}
	tensors := uint64(info.sound_tensors) + uint64(info.lost_tensors)
	fmt.Printf("%s %s, %d of %d tensors\n", C.GoString(info.verdict_name), textOf(info.format), info.sound_tensors, tensors)
	return nil
}

var texts []string

//export goOnEvent
func goOnEvent(number C.uintptr_t, event *C.ballast_engine_event) {
	texts[number] += textOf(event.text)
}

func printTexts(path string, prompts []string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var model *C.ballast_text_model
	if err := checked(C.ballast_text_model_open(name, nil, &model)); err != nil {
		return err
	}
	defer C.ballast_text_model_close(model)
	var options C.ballast_generate_options
	options.struct_size = C.sizeof_ballast_generate_options
	if err := checked(C.ballast_text_model_defaults(model, &options)); err != nil {
		return err
	}
	options.max_tokens = 8
	options.temperature = 0
	var engine *C.ballast_engine
	if err := checked(C.ballast_engine_create(model, nil, &engine)); err != nil {
		return err
	}
	defer C.ballast_engine_close(engine)
	texts = make([]string, len(prompts))
	for number, prompt := range prompts {
		data := C.CString(prompt)
		err := checked(C.submit(engine, data, C.size_t(len(prompt)), &options, C.uintptr_t(number)))
		C.free(unsafe.Pointer(data))
		if err != nil {
			return err
		}
	}
	if err := checked(C.ballast_engine_run(engine)); err != nil {
		return err
	}
	for _, text := range texts {
		fmt.Println(strconv.Quote(text))
	}
	return nil
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "tensors":
		return printTensors(arguments[1])
	case len(arguments) == 2 && arguments[0] == "doctor":
		return printDiagnosis(arguments[1])
	case len(arguments) >= 2 && arguments[0] == "generate":
		return printTexts(arguments[1], arguments[2:])
	}
	return errors.New("usage: tensors PATH | doctor PATH | generate PATH PROMPT...")
}

func main() {
	if C.ballast_abi_version() != C.BALLAST_ABI_VERSION {
		panic("another version of the ABI")
	}
	err := run(os.Args[1:])
	if err != nil {
		fmt.Println("error", err)
	}
	fmt.Printf("%d handles open\n", C.ballast_open_handles())
	if err != nil {
		os.Exit(1)
	}
}
