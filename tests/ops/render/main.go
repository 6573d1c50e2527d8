// Renders a chart as `helm template` does, where helm is not to be had: the same template engine and
// functions (text/template, sprig), and of helm's own those that our chart uses. Debian has all of it:
// golang-go, golang-github-masterminds-sprig-dev, golang-k8s-sigs-yaml-dev.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run main.go CHART [VALUES.yaml]
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

type files struct{ chart string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.chart, name))
	must(err)
	return string(text)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(path string) object {
	text, err := os.ReadFile(path)
	must(err)
	found := object{}
	must(yaml.UnmarshalStrict(text, &found))
	return found
}

// merge lays `over` upon `under`, map by map, as helm does with values.
func merge(under, over object) object {
	for name, value := range over {
		if below, is := under[name].(object); is {
			if given, is := value.(object); is {
				value = merge(below, given)
			}
		}
		under[name] = value
	}
	return under
}

func main() {
	chart := os.Args[1]
	values := load(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 2 {
		values = merge(values, load(os.Args[2]))
	}
	meta := load(filepath.Join(chart, "Chart.yaml"))
	root := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		must(err)
		return strings.TrimSuffix(string(text), "\n")
	}
	functions["required"] = func(said string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", said)
		}
		return value, nil
	}
	root.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	must(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(err)
		template.Must(root.New(filepath.Base(path)).Parse(string(text)))
	}
	data := object{
		"Values": values,
		"Chart": object{"Name": meta["name"], "Version": meta["version"], "AppVersion": meta["appVersion"]},
		"Release": object{"Name": "mine", "Namespace": "here", "Service": "Helm"},
		"Files": files{chart},
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".yaml") {
			fmt.Println("---")
			must(root.ExecuteTemplate(os.Stdout, name, data))
		}
	}
}
