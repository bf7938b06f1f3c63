document.title = "A page of the tests";
